// Which backend makes a session's machine.
import { SandglassError } from '@sandglass/contract'
import type { Backend, MachineWishes } from '../../backends/backend.ts'
import { unenforced } from '../../backends/machine/unenforced.ts'
import type { SessionContext } from '../context.ts'
import { allowedUnenforced } from './allowed-limits.ts'

/**
 * The named one, or for `auto` the first that this host can run with every limit and every wish: a session never gets weaker isolation
 * because it did not say. When none can, the error is that of the first that was there at all, with what the others say where all refuse
 * the wish: one that names another backend is no help if that one refuses it, too.
 */
export async function chooseBackend(context: SessionContext, name: string, wishes: MachineWishes): Promise<Backend> {
  const candidates = name === 'auto' ? worthAsking([...context.backends.values()], wishes) : [backendOf(context, name)]
  const absent: string[] = []
  const refusals: SandglassError[] = []
  for (const backend of candidates) {
    const probe = await backend.probe()
    if (!probe.available) {
      absent.push([`${backend.name}: ${probe.why ?? 'not available'}`, probe.fix].filter(Boolean).join('; '))
      continue
    }
    try {
      // First what nothing changes: who would accept a limit for it should not learn of it afterwards.
      await backend.refuse?.(wishes)
      unenforced(backend.name, probe, allowedUnenforced(context.config, backend.name))
      return backend
    } catch (error) {
      if (!(error instanceof SandglassError)) throw error
      // One that knows the runtime and cannot use it is what was meant: another backend's of the same name may isolate less.
      if (wishes.runtime !== null && error.is('BACKEND_UNAVAILABLE')) throw error
      refusals.push(error)
    }
  }
  if (refusals[0]) throw joined(refusals) ?? refusals[0]
  throw new SandglassError('BACKEND_UNAVAILABLE', { backend: candidates.map(b => b.name).join(', '), why: absent.join('; ') })
}

/** A backend that has no OCI runtimes cannot give one, and why is not worth telling while another has them. */
function worthAsking(backends: Backend[], { runtime }: MachineWishes): Backend[] {
  const able = runtime === null ? backends : backends.filter(backend => backend.runtimes !== undefined)
  return able.length > 0 ? able : backends
}

/** Who names a backend gets nested virtualisation only where the host has it; the session says whether it has. `auto` looks for one that does. */
export async function grantedWishes(context: SessionContext, name: string, wishes: MachineWishes): Promise<MachineWishes> {
  if (!wishes.nestedVirt || name === 'auto') return wishes
  const backend = backendOf(context, name)
  return backend.hasNested === undefined ? wishes : { ...wishes, nestedVirt: await backend.hasNested() }
}

/** Null unless all say that it is not supported. A way out that leads to another backend is none here. */
function joined(refusals: readonly SandglassError[]): SandglassError | null {
  const details = refusals.filter(refusal => refusal.is('UNSUPPORTED')).map(({ detail }) => detail)
  if (details.length < 2 || details.length < refusals.length) return null
  const what = [...new Set(details.map(detail => detail.what))].join('; ')
  const next = details.map(detail => detail.next ?? '').find(way => way !== '' && !way.startsWith('use --backend'))
  return new SandglassError('UNSUPPORTED', next === undefined ? { what } : { what, next })
}

export function backendOf(context: SessionContext, name: string): Backend {
  const backend = context.backends.get(name)
  if (!backend) throw new SandglassError('BACKEND_UNAVAILABLE', { backend: name, why: 'this daemon does not have it' })
  return backend
}
