// Which backend makes a session's machine.
import { SandglassError } from '@sandglass/contract'
import type { Backend } from '../backends/backend.ts'
import type { World } from './world.ts'

/** The named one, or for `auto` the first that this host can run; BACKEND_UNAVAILABLE says why none can. */
export async function chooseBackend(world: World, name: string): Promise<Backend> {
  const candidates = name === 'auto' ? [...world.backends.values()] : [backendOf(world, name)]
  const refusals: string[] = []
  for (const backend of candidates) {
    const probe = await backend.probe()
    if (probe.available) return backend
    refusals.push([probe.why ?? 'not available', probe.fix].filter(Boolean).join('; '))
  }
  throw new SandglassError('BACKEND_UNAVAILABLE', { backend: candidates.map(b => b.name).join(', '), why: refusals.join('; ') })
}

export function backendOf(world: World, name: string): Backend {
  const backend = world.backends.get(name)
  if (!backend) throw new SandglassError('BACKEND_UNAVAILABLE', { backend: name, why: 'this daemon does not have it' })
  return backend
}
