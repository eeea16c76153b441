// GET /v1/sessions/{id}: by id or name, with the lease as it stands and not as last written.
import type { SessionRow } from '../store/tables.ts'
import type { SessionContext } from './context.ts'
import { storedSession } from './live.ts'

export async function getSession(context: SessionContext, ref: string): Promise<SessionRow> {
  return context.live.get(ref)?.row ?? storedSession(context, ref)
}
