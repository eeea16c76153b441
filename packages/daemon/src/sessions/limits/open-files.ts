// Watches how many files the host has open. SECURITY: a session may find ways to hold more than the limits of its processes say. Before the host
// and the other sessions can open no more, the session that holds the most is failed with that reason.
import { openFilePool } from '../../backends/isolation/open-files.ts'
import { Periodic } from '../../lib/periodic.ts'
import type { SessionContext } from '../context.ts'
import { failSession } from '../lifecycle/watch-machine.ts'
import type { LiveSession } from '../live.ts'

const EVERY_MS = 1000
/** Once half of what sessions may take is taken. */
const NEAR_MS = 100
/** The part that is kept free where the configuration sets no number: one fifth. */
const RESERVED_DIVISOR = 5
const WARN_EVERY_MS = 60_000
/** systemd sets such a number: memory is what bounds open files then. */
const UNBOUNDED = 2 ** 40

/** Not started yet. Null where the kernel sets no bound. */
export function openFilesWatch(context: SessionContext): Periodic | null {
  const { max } = openFilePool()
  if (max >= UNBOUNDED) return null
  const reserved = context.config.limits.reserved_open_files ?? Math.floor(max / RESERVED_DIVISOR)
  let warnedAt = Number.NEGATIVE_INFINITY
  const sample = async (): Promise<number> => {
    const { open } = openFilePool()
    if (open > max - reserved) {
      const held = await failLargestHolder(context, { open, max, reserved })
      if (held !== null && performance.now() - warnedAt > WARN_EVERY_MS) {
        warnedAt = performance.now()
        context.log.error({ open, max, held }, 'the host is short of open files, and sessions hold less than half of them')
      }
    }
    return open > (max - reserved) / 2 ? NEAR_MS : EVERY_MS
  }
  const onError = (err: unknown) => {
    context.log.error({ err }, 'open files of the host could not be counted; retrying')
    return EVERY_MS
  }
  return new Periodic({ work: sample, onError, maxMs: EVERY_MS })
}

type Pool = { open: number; max: number; reserved: number }
type Holder = { live: LiveSession; files: number }

/** Returns null when it failed a session. If all sessions together hold less than half of the open files, it fails none and returns their number. */
async function failLargestHolder(context: SessionContext, { open, max, reserved }: Pool): Promise<number | null> {
  const holders = await holdersOf(context, open)
  const [largest] = holders.toSorted((a, b) => b.files - a.files)
  if (largest === undefined || sum(holders) < open / 2) return sum(holders)
  const error_message = `it had about ${largest.files} of the host's ${max} open files; fewer than ${reserved} were left`
  await failSession(context, largest.live, async () => ({ reason: 'host_limit', error_message }))
  return null
}

/** Counts mappings as well where open files alone do not explain the number. */
async function holdersOf(context: SessionContext, open: number): Promise<Holder[]> {
  const holders = await count(context, false)
  return sum(holders) < open / 2 ? await count(context, true) : holders
}

async function count(context: SessionContext, withMapped: boolean): Promise<Holder[]> {
  const counted = context.live.all().map(async live => {
    const files = await live.machine.openFiles?.(withMapped).catch(err => {
      context.log.debug({ err, sessionId: live.record.id }, 'open files of a session cannot be counted')
      return 0
    })
    return { live, files: files ?? 0 }
  })
  return await Promise.all(counted)
}

const sum = (holders: readonly Holder[]) => holders.reduce((total, { files }) => total + files, 0)
