// A session as the daemon works with it, and the one place that converts it from and to its row in the store.
// Field names are those of the API; times are milliseconds since the epoch. What the row holds as JSON text or as 0 and 1 is parsed here.
import { type AgentName, FINAL_STATES, type LimitHit, SESSION_ID, type SessionState } from '@sandglass/contract'
import type { HostMount, LimitKind } from '../backends/backend.ts'
import type { GivenSecret } from '../secrets/session-secrets.ts'
import type { Page } from '../store/cursor.ts'
import type { PendingRequest } from '../store/idempotency.ts'
import * as listRows from '../store/list.ts'
import type { Store } from '../store/open.ts'
import * as rows from '../store/sessions.ts'
import { DEFAULT_TENANT, type SessionRow } from '../store/tables.ts'
import type { AgentVersion } from './lifecycle/prepare-agents.ts'

type Parsed = {
  /** The limit that ended the session. */
  limit_hit: LimitHit | null
  /** Limits that a resize under way gives to the machine. */
  resizing: ResizableLimits | null
  readonly_rootfs: boolean
  nested_virt: boolean
  mounts: readonly HostMount[]
  unenforced: readonly LimitKind[]
  env_names: readonly string[]
  policies: readonly string[]
  secrets: readonly GivenSecret[]
  agents: readonly AgentName[]
  agent_packages: readonly AgentVersion[]
  warnings: readonly string[]
  labels: Readonly<Record<string, string>>
}

/** Columns that follow from others and serve only the store's indexes. */
type Derived = 'tenant' | 'live_name' | 'is_final'

export type SessionRecord = Omit<SessionRow, keyof Parsed | Derived> & Parsed

export type ResizableLimits = Pick<SessionRow, 'cpu_cores' | 'memory_mb' | 'pids_limit'>

const JSON_COLUMNS = [
  'limit_hit',
  'resizing',
  'mounts',
  'unenforced',
  'env_names',
  'policies',
  'secrets',
  'agents',
  'agent_packages',
  'warnings',
  'labels',
] as const
const FLAG_COLUMNS = ['readonly_rootfs', 'nested_virt'] as const

export function fromRow({ tenant: _, live_name: __, is_final: ___, ...row }: SessionRow): SessionRecord {
  const json = JSON_COLUMNS.map(name => [name, row[name] === null ? null : JSON.parse(row[name])])
  const flags = FLAG_COLUMNS.map(name => [name, row[name] === 1])
  return { ...row, ...Object.fromEntries([...json, ...flags]) }
}

export function toRow(record: SessionRecord): SessionRow {
  const is_final = FINAL_STATES.includes(record.status) ? 1 : 0
  return {
    ...record,
    ...toColumns(record),
    tenant: DEFAULT_TENANT,
    is_final,
    live_name: is_final === 1 ? null : record.name,
  } as SessionRow
}

type Columns = Partial<Omit<SessionRow, Derived>>

function toColumns(patch: Partial<SessionRecord>): Columns {
  const columns: Record<string, unknown> = { ...patch }
  for (const name of JSON_COLUMNS)
    if (patch[name] !== undefined) columns[name] = patch[name] === null ? null : JSON.stringify(patch[name])
  for (const name of FLAG_COLUMNS) if (patch[name] !== undefined) columns[name] = patch[name] ? 1 : 0
  return columns as Columns
}

/** By id or name; of several ended sessions with the name, the newest. */
export async function findRecord(store: Store, ref: string): Promise<SessionRecord | undefined> {
  const row = await rows.findSession(store, SESSION_ID.test(ref) ? { id: ref } : { name: ref })
  return row && fromRow(row)
}

/** `request` is stored in the same transaction. Throws NAME_TAKEN. */
export async function insertRecord(store: Store, record: SessionRecord, request: PendingRequest | null): Promise<void> {
  await rows.insertSession(store, toRow(record), request)
}

/** Stores a new state with its event; throws if the stored state is not that of `record` any more. */
export async function changeRecord(
  store: Store,
  record: SessionRecord,
  patch: Partial<SessionRecord> & { status: SessionState },
  now: number,
): Promise<SessionRecord> {
  const columns = { ...toColumns(patch), status: patch.status }
  return fromRow(await rows.changeState(store, toRow(record), columns, now))
}

/** Stores changes other than of the state. */
export const patchRecord = (store: Store, id: string, patch: Partial<SessionRecord>): Promise<void> =>
  rows.patchSession(store, id, toColumns(patch))

/** Sessions that are in no final state. */
export const unendedRecords = async (store: Store): Promise<SessionRecord[]> => (await rows.unendedSessions(store)).map(fromRow)

/** Sessions whose retention has ended. */
export const retiredRecords = async (store: Store, now: number, limit: number): Promise<SessionRecord[]> =>
  (await rows.retiredSessions(store, now, limit)).map(fromRow)

export async function listRecords(
  store: Store,
  filter: listRows.SessionFilter,
  page: Page,
): Promise<{ records: SessionRecord[]; total: number; nextCursor: string | null }> {
  const { rows: found, ...rest } = await listRows.listSessions(store, filter, page)
  return { records: found.map(fromRow), ...rest }
}
