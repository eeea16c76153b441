// Host names to addresses, by the host's own resolver. Answers are kept for a few seconds, and a session has few lookups under way at once.
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'

export interface Address {
  readonly address: string
  readonly family: 4 | 6
}

export type Resolution =
  | { readonly kind: 'found'; readonly addresses: readonly Address[] }
  | { readonly kind: 'not-found' }
  | { readonly kind: 'failed'; readonly reason: string }

const KEEP_MS = 10_000
const MAX_KEPT = 10_000
/** SECURITY: lookups occupy threads of this process; a session that asks for many slow names must leave some to the others. */
const PER_SESSION = 4

export interface Resolver {
  resolve(session: string, host: string): Promise<Resolution>
}

/** All addresses of a name, or an error with a code. */
export type Lookup = (host: string) => Promise<readonly { address: string; family: number }[]>

const lookUp: Lookup = host => lookup(host, { all: true, order: 'verbatim' })

export function createResolver(find: Lookup = lookUp, now: () => number = Date.now): Resolver {
  const kept = new Map<string, { readonly until: number; readonly result: Promise<Resolution> }>()
  const underWay = new Map<string, { count: number; waiting: (() => void)[] }>()

  async function limited(session: string, run: () => Promise<Resolution>): Promise<Resolution> {
    const slots = underWay.get(session) ?? { count: 0, waiting: [] }
    underWay.set(session, slots)
    if (slots.count >= PER_SESSION) await new Promise<void>(resolve => slots.waiting.push(resolve))
    else slots.count += 1
    try {
      return await run()
    } finally {
      const next = slots.waiting.shift()
      if (next) next()
      else {
        slots.count -= 1
        if (slots.count === 0) underWay.delete(session)
      }
    }
  }

  async function ask(host: string): Promise<Resolution> {
    try {
      const found = await find(host)
      return { kind: 'found', addresses: found.map(({ address, family }) => ({ address, family: family === 6 ? 6 : 4 })) }
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      return code === 'ENOTFOUND' ? { kind: 'not-found' } : { kind: 'failed', reason: code ?? 'the lookup failed' }
    }
  }

  function keptResult(host: string): Promise<Resolution> | null {
    const known = kept.get(host)
    return known !== undefined && known.until > now() ? known.result : null
  }

  /** Only a lookup that has begun is shared: one that waits for a place of its session would make other sessions wait, too. */
  function begin(host: string): Promise<Resolution> {
    const entry = { until: now() + KEEP_MS, result: ask(host) }
    kept.delete(host)
    kept.set(host, entry)
    if (kept.size > MAX_KEPT) kept.delete(kept.keys().next().value ?? '')
    void entry.result.then(({ kind }) => kind === 'failed' && kept.get(host) === entry && kept.delete(host))
    return entry.result
  }

  return {
    resolve(session, host) {
      const family = isIP(host)
      if (family !== 0) return Promise.resolve({ kind: 'found', addresses: [{ address: host, family: family === 6 ? 6 : 4 }] })
      return keptResult(host) ?? limited(session, () => keptResult(host) ?? begin(host))
    },
  }
}
