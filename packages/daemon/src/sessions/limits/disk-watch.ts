// Watches the free space of the host's disk, and pauses the sessions that write before it runs out. SECURITY: the disk of a session is a file with
// holes. If the host has no block for one of them, programs inside meet an I/O error, and the filesystem inside is damaged.
//
// The lines are disk-policy.ts's. Below `pause` every session that writes is paused; below `floor`, where something else must have filled the disk,
// every session is. One that cannot be paused, or does not stop in time, is stopped: a kill ends a long write(2), a freeze waits for it.
// A session that was paused stays so until it is resumed, which is refused while free space is below `pause`.
import { statfsSync } from 'node:fs'
import { diskLines } from '../../data-dir/disk-policy.ts'
import type { SessionContext } from '../context.ts'
import { getSession } from '../get.ts'
import { stop } from '../lifecycle/stop.ts'
import { transition } from '../lifecycle/transition.ts'
import type { LiveSession } from '../live.ts'
import { shortage } from '../placement/admission.ts'
import { heldByKernel, unwrittenBytes } from './disk-space.ts'

const KiB = 1024
const GiB = KiB ** 3
/** No disk of a host that this is for is written faster. */
const BYTES_PER_MS = (4 * GiB) / 1000
const LEAST_MS = 50
const MOST_MS = 5000
const RETRY_MS = 500
/** Sampling takes at most a fifth of the time. */
const REST_PER_LOOK = 4
/** Within this distance of the threshold, sample each session: the ones that write are known by the difference between two samples. */
const NEAR_BYTES = GiB
/** Growth is counted from a look that is at most about this old. */
const BASELINE_MS = 1000
const GROWN_BYTES = 256 * KiB
const PAUSE_DEADLINE_MS = 2000

type Taken = ReadonlyMap<string, number>

export class DiskWatch {
  readonly #context: SessionContext
  #baseline: { at: number; taken: Taken } | null = null
  /** Sessions that are being paused or stopped. */
  readonly #holding = new Map<string, Promise<void>>()
  #timer: NodeJS.Timeout | undefined
  #look: Promise<void> = Promise.resolve()
  #isStopped = false

  constructor(context: SessionContext) {
    this.#context = context
  }

  start(): void {
    this.#arm(0)
  }

  /** Resolves when what is under way is over. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#timer)
    await this.#look
    await Promise.all(this.#holding.values())
  }

  #arm(ms: number): void {
    if (this.#isStopped) return
    this.#timer = setTimeout(() => {
      this.#look = this.#tick().then(
        next => this.#arm(next),
        err => {
          this.#context.log.error({ err }, 'free disk space could not be read; retrying')
          this.#arm(RETRY_MS)
        },
      )
    }, ms)
  }

  /** One look; answers with the time until the next. */
  async #tick(): Promise<number> {
    const { config, dataDir } = this.#context
    const sessions = this.#context.live.all().filter(({ row }) => this.#context.backends.get(row.backend)?.room !== undefined)
    const { blocks, bavail, bsize } = statfsSync(dataDir)
    const lines = diskLines({ floorMb: config.overcommit.disk_floor_mb }, blocks * bsize)
    const free = bavail * bsize
    const above = free - heldByKernel() - lines.pause
    if (above > NEAR_BYTES || sessions.length === 0) {
      this.#baseline = null
      return untilNext(above)
    }
    const began = performance.now()
    const { taken, unwritten } = await this.#takenBy(sessions)
    const left = free - unwritten
    const grown = this.#grown(taken, left < lines.pause)
    if (left < lines.pause)
      for (const session of sessions)
        if (left < lines.floor || grown.has(session.row.id)) this.#hold(session, shortage(left, lines.pause))
    return Math.max(untilNext(left - lines.pause), (performance.now() - began) * REST_PER_LOOK)
  }

  /** Bytes of the disk that each session has taken or will take with what it has written so far, from a start that differs between sessions. */
  async #takenBy(sessions: readonly LiveSession[]): Promise<{ taken: Taken; unwritten: number }> {
    const taken = new Map<string, number>()
    for (const name of new Set(sessions.map(({ row }) => row.backend)))
      for (const [id, promised] of (await this.#context.backends.get(name)?.room?.(true))?.promised ?? [])
        taken.set(id, -promised)
    let unwritten = 0
    for (const [id, bytes] of await unwrittenBytes(sessions)) {
      unwritten += bytes
      taken.set(id, (taken.get(id) ?? 0) + bytes)
    }
    return { taken, unwritten }
  }

  /** While space is short the baseline stays, so that a session that writes slowly is found too. */
  #grown(taken: Taken, isShort: boolean): ReadonlySet<string> {
    const now = performance.now()
    const { at, taken: before } = this.#baseline ?? { at: now, taken }
    // One that has just started counts from its first look.
    this.#baseline = now - at > BASELINE_MS && !isShort ? { at: now, taken } : { at, taken: new Map([...taken, ...before]) }
    return new Set([...taken].filter(([id, bytes]) => bytes - (before.get(id) ?? bytes) >= GROWN_BYTES).map(([id]) => id))
  }

  #hold({ row: { id, status } }: LiveSession, why: string): void {
    if (status !== 'running' || this.#holding.has(id)) return
    const held = hold(this.#context, id, why)
      .catch(err => this.#context.log.error({ err, sessionId: id }, 'session could not be kept from filling the disk'))
      .finally(() => this.#holding.delete(id))
    this.#holding.set(id, held)
  }
}

async function hold(context: SessionContext, id: string, why: string): Promise<void> {
  await context.mutex.run(id, async () => {
    const row = await getSession(context, id)
    const live = context.live.get(id)
    if (!live || row.status !== 'running') return
    const change = (verb: 'resume' | 'start') =>
      ({
        reason: 'disk_pressure',
        error_message: `the host is full: ${why}; free disk space, then \`sandglass ${verb} ${row.name}\``,
      }) as const
    try {
      if (!live.machine.pause) throw new Error('this machine cannot be paused')
      await live.machine.pause(PAUSE_DEADLINE_MS)
      await transition(context, row, 'pause', change('resume'))
    } catch (err) {
      context.log.warn({ err, sessionId: id }, 'session is stopped, because it was not paused in time')
      await stop(context, row, change('start'), context.log, { isAsked: false })
    }
  })
}

const untilNext = (above: number): number => Math.min(Math.max(above / BYTES_PER_MS, LEAST_MS), MOST_MS)
