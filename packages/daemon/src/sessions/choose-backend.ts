// Which backend makes a session's machine.
import { SandglassError } from '@sandglass/contract'
import type { Backend } from '../backends/backend.ts'
import { allowedUnenforced } from './allowed-limits.ts'
import type { World } from './world.ts'

/**
 * The named one, or for `auto` the first that this host can run with every limit that the configuration asks for: weaker isolation
 * is never what a session gets because it did not say. BACKEND_UNAVAILABLE tells why none can.
 */
export async function chooseBackend(world: World, name: string): Promise<Backend> {
  const candidates = name === 'auto' ? [...world.backends.values()] : [backendOf(world, name)]
  const refusals: string[] = []
  let short: Backend | undefined
  for (const backend of candidates) {
    const probe = await backend.probe()
    const allowed = allowedUnenforced(world.config, backend.name)
    if (!probe.available)
      refusals.push([`${backend.name}: ${probe.why ?? 'not available'}`, probe.fix].filter(Boolean).join('; '))
    else if (probe.unenforceable.every(limit => allowed.includes(limit))) return backend
    else short ??= backend
  }
  // The caller says which of its limits cannot be enforced, and what mends that.
  if (short) return short
  throw new SandglassError('BACKEND_UNAVAILABLE', { backend: candidates.map(b => b.name).join(', '), why: refusals.join('; ') })
}

export function backendOf(world: World, name: string): Backend {
  const backend = world.backends.get(name)
  if (!backend) throw new SandglassError('BACKEND_UNAVAILABLE', { backend: name, why: 'this daemon does not have it' })
  return backend
}
