// Watches how many files the host has open. SECURITY: a session may find ways to hold more than the limits of its processes say; before the host
// and the other sessions can open none, the one that holds the most is ended, with that as its reason.
import { setTimeout as delay } from 'node:timers/promises'
import { openFilePool } from '../../backends/isolation/open-files.ts'
import type { SessionContext } from '../context.ts'
import { release } from '../lifecycle/bring-up.ts'
import { transition } from '../lifecycle/transition.ts'
import type { LiveSession } from '../live.ts'

const EVERY_MS = 1000
/** Once half of what sessions may take is taken. */
const CLOSER_MS = 100
/** The part that is kept free where the configuration names no number. */
const RESERVED = 5
const TELL_EVERY_MS = 60_000
/** systemd sets such a number: memory is what bounds open files then. */
const UNBOUNDED = 2 ** 40

/** Ends when the daemon does. */
export async function watchOpenFiles(context: SessionContext): Promise<void> {
  const { max } = openFilePool()
  if (max >= UNBOUNDED) return
  const reserved = context.config.limits.reserved_open_files ?? Math.floor(max / RESERVED)
  const ignoreAbort = () => undefined
  let toldAt = Number.NEGATIVE_INFINITY
  while (!context.closing.aborted) {
    const { open } = openFilePool()
    if (open > max - reserved) {
      const held = await relieve(context, { open, max, reserved })
      if (held !== null && performance.now() - toldAt > TELL_EVERY_MS) {
        toldAt = performance.now()
        context.log.error({ open, max, held }, 'the host is short of open files, and sessions hold less than half of them')
      }
    }
    const wait = open > (max - reserved) / 2 ? CLOSER_MS : EVERY_MS
    await delay(wait, undefined, { ref: false, signal: context.closing }).catch(ignoreAbort)
  }
}

type Pool = { open: number; max: number; reserved: number }
type Holder = { live: LiveSession; files: number }

/** Ends the session that holds the most. If all sessions together hold less than half, it ends none and gives their number. */
async function relieve(context: SessionContext, pool: Pool): Promise<number | null> {
  const holders = await holdersOf(context, pool.open)
  const [most] = holders.toSorted((a, b) => b.files - a.files)
  if (most === undefined || sum(holders) < pool.open / 2) return sum(holders)
  await end(context, most, pool)
  return null
}

/** Mappings are counted as well where open files alone do not explain the number. */
async function holdersOf(context: SessionContext, open: number): Promise<Holder[]> {
  const holders = await count(context, false)
  return sum(holders) < open / 2 ? await count(context, true) : holders
}

async function count(context: SessionContext, withMapped: boolean): Promise<Holder[]> {
  const counted = context.live.all().map(async live => {
    const files = await live.machine.openFiles?.(withMapped).catch(err => {
      context.log.debug({ err, sessionId: live.row.id }, 'open files cannot be counted')
      return 0
    })
    return { live, files: files ?? 0 }
  })
  return await Promise.all(counted)
}

async function end(context: SessionContext, { live, files }: Holder, { max, reserved }: Pool): Promise<void> {
  await context.mutex.run(live.row.id, async () => {
    if (context.live.get(live.row.id) !== live) return
    const error_message = `it had about ${files} of the host's ${max} open files; fewer than ${reserved} were left`
    await transition(context, live.row, 'fail', { reason: 'host_limit', error_message })
    release(context, live)
    await live.machine.stop()
  })
}

const sum = (holders: readonly Holder[]) => holders.reduce((total, { files }) => total + files, 0)
