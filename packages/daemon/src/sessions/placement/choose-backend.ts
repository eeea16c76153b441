// Which backend makes a session's machine.
import { SandglassError } from '@sandglass/contract'
import type { Backend, MachineRequirements } from '../../backends/backend.ts'
import { acceptedUnenforced } from '../../backends/machine/refusals.ts'
import { allowedUnenforced } from '../../config/allowed-unenforced.ts'
import type { SessionContext } from '../context.ts'
import type { SessionRecord } from '../session-record.ts'

/**
 * The named backend, or for `auto` the first one that enforces every limit and meets every requirement on this host: a session never gets
 * weaker isolation because it did not name a backend. If none does, the error is that of the first available one. If all of them reject the
 * requirements as unsupported, the error lists every reason, because "use another backend" would not help.
 */
export async function chooseBackend(context: SessionContext, name: string, requirements: MachineRequirements): Promise<Backend> {
  const candidates = name === 'auto' ? withRuntimes([...context.backends.values()], requirements) : [backendOf(context, name)]
  const unavailable: string[] = []
  const refusals: SandglassError[] = []
  for (const backend of candidates) {
    const probe = await backend.probe()
    if (!probe.available) {
      unavailable.push([`${backend.name}: ${probe.why ?? 'not available'}`, probe.fix].filter(Boolean).join('; '))
      continue
    }
    try {
      // Requirements first, because no setting can change them: otherwise an operator would accept a missing limit and be refused anyway.
      await backend.checkRequirements?.(requirements)
      acceptedUnenforced(backend.name, probe, allowedUnenforced(context.config, backend.name))
      return backend
    } catch (error) {
      if (!(error instanceof SandglassError)) throw error
      // SECURITY: this backend knows the runtime and cannot use it. A runtime of the same name in another backend may isolate less.
      if (requirements.runtime !== null && error.is('BACKEND_UNAVAILABLE')) throw error
      refusals.push(error)
    }
  }
  if (refusals[0]) throw joined(refusals) ?? refusals[0]
  throw new SandglassError('BACKEND_UNAVAILABLE', {
    backend: candidates.map(b => b.name).join(', '),
    why: unavailable.join('; '),
  })
}

/** If a session names an OCI runtime, only backends that have runtimes are asked, as long as there is one. */
function withRuntimes(backends: Backend[], { runtime }: MachineRequirements): Backend[] {
  const able = runtime === null ? backends : backends.filter(backend => backend.runtimes !== undefined)
  return able.length > 0 ? able : backends
}

/** A named backend gives nested virtualisation only if the host has it; the session shows whether it does. `auto` requires it. */
export async function grantNestedVirt(context: SessionContext, session: SessionRecord): Promise<SessionRecord> {
  if (!session.nested_virt || session.backend === 'auto') return session
  const backend = backendOf(context, session.backend)
  return backend.hasNested === undefined ? session : { ...session, nested_virt: await backend.hasNested() }
}

/** One error with the reasons of all, or null unless every refusal is UNSUPPORTED. A hint to use another backend is left out. */
function joined(refusals: readonly SandglassError[]): SandglassError | null {
  const details = refusals.filter(refusal => refusal.is('UNSUPPORTED')).map(({ detail }) => detail)
  if (details.length < 2 || details.length < refusals.length) return null
  const what = [...new Set(details.map(detail => detail.what))].join('; ')
  const next = details.map(detail => detail.next ?? '').find(hint => hint !== '' && !hint.startsWith('use --backend'))
  return new SandglassError('UNSUPPORTED', next === undefined ? { what } : { what, next })
}

export function backendOf(context: SessionContext, name: string): Backend {
  const backend = context.backends.get(name)
  if (!backend) throw new SandglassError('BACKEND_UNAVAILABLE', { backend: name, why: 'this daemon does not have it' })
  return backend
}
