// GET /v1/sessions/{id}: by id or name, with the lease as it stands and not as last written.
import type { SessionRow } from '../store/tables.ts'
import type { World } from './context.ts'
import { storedSession } from './live.ts'

export async function getSession(world: World, ref: string): Promise<SessionRow> {
  return world.live.get(ref)?.row ?? storedSession(world, ref)
}
