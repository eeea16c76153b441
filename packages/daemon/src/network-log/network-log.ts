// The network log of a session as the API gives it: entries, text, and the policy that they suggest.
import { FINAL_STATES, type NetworkEntry, type NetworkQuery, type Policy } from '@sandglass/contract'
import { suggestPolicy as suggest } from '@sandglass/egress/policy'
import { logFolder } from '../egress/folders.ts'
import type { SessionContext } from '../sessions/context.ts'
import { getSession } from '../sessions/live.ts'
import { followEntries, readEntries } from './entries.ts'
import { openBoth, TEXT } from './log-file.ts'

/** Different requests that a suggestion is made from. */
const MAX_SUGGESTED = 50_000

/** Entries after the id `after`. A stream that follows ends when the session has ended. */
export async function networkEntries(
  context: SessionContext,
  ref: string,
  { follow = false, blocked = false, tail }: NetworkQuery,
  after: number | null,
  signal: AbortSignal,
): Promise<AsyncGenerator<NetworkEntry, void, undefined>> {
  const { id } = await getSession(context, ref)
  const folder = logFolder(context.dataDir, id)
  const matches = (entry: NetworkEntry) => !blocked || isRefused(entry)
  // A client that resumes has its tail already.
  const first = after ?? (tail === undefined ? 0 : await beforeTail(folder, tail, matches))
  const entries = follow ? followEntries(folder, first, () => hasEnded(context, id), signal) : readEntries(folder, first)
  return filtered(entries, matches)
}

export async function networkText(context: SessionContext, ref: string): Promise<AsyncGenerator<Uint8Array, void, undefined>> {
  const { id } = await getSession(context, ref)
  return textOf(logFolder(context.dataDir, id))
}

async function* textOf(folder: string): AsyncGenerator<Uint8Array, void, undefined> {
  await using stack = new AsyncDisposableStack()
  const files = (await openBoth(folder, TEXT)).map(file => stack.use(file))
  for (const file of files) yield* file.chunks()
}

export async function suggestPolicy(context: SessionContext, ref: string): Promise<Policy> {
  const { id } = await getSession(context, ref)
  const seen = new Map<string, NetworkEntry>()
  for await (const entry of readEntries(logFolder(context.dataDir, id))) {
    const { type, decision, method, url, host, port } = entry
    const key = [type, decision, method, url?.split(/[?#]/)[0], host, port].join(' ')
    if (!seen.has(key)) seen.set(key, entry)
    if (seen.size >= MAX_SUGGESTED) break
  }
  return suggest([...seen.values()])
}

const isRefused = ({ type, decision }: NetworkEntry) => decision === 'blocked' || decision === 'error' || type === 'error'

async function* filtered(
  entries: AsyncIterable<NetworkEntry>,
  matches: (entry: NetworkEntry) => boolean,
): AsyncGenerator<NetworkEntry, void, undefined> {
  for await (const entry of entries) if (matches(entry)) yield entry
}

/** The id before the last `tail` entries that match. Only ids are kept: a log may be large. */
async function beforeTail(folder: string, tail: number, matches: (entry: NetworkEntry) => boolean): Promise<number> {
  const ids: number[] = []
  let seen = 0
  let last = 0
  for await (const entry of readEntries(folder)) {
    last = entry.id
    if (tail > 0 && matches(entry)) ids[seen++ % tail] = entry.id
  }
  if (tail === 0) return last
  const oldest = seen <= tail ? ids[0] : ids[seen % tail]
  return oldest === undefined ? last : oldest - 1
}

async function hasEnded(context: SessionContext, id: string): Promise<boolean> {
  if (context.live.get(id)) return false
  const { status } = await getSession(context, id).catch(() => ({ status: 'terminated' as const }))
  if (!FINAL_STATES.includes(status)) return false
  // The egress process writes the last entries when it lets go of the session.
  await context.egress.mutex.run(id, async () => undefined)
  return true
}
