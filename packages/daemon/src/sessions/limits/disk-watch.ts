// Watches the free space of the host's disk, and pauses the sessions that write before it runs out. SECURITY: the disk of a session is a sparse
// file. If the host has no block for a hole in it, programs inside get an I/O error, and the filesystem inside is damaged.
//
// disk-policy.ts defines the thresholds. Below `pause` every session that writes is paused; below `floor`, where something else must have filled
// the disk, every session is. A session that cannot be paused in time is stopped: a kill ends a long write(2), a freeze waits for it.
// A paused session stays paused until it is resumed, which is refused while free space is below `pause`.
import { statfsSync } from 'node:fs'
import { diskThresholds } from '../../data-dir/disk-policy.ts'
import { Periodic } from '../../lib/periodic.ts'
import type { SessionContext } from '../context.ts'
import { setFrozen } from '../lifecycle/pause.ts'
import { stop } from '../lifecycle/stop.ts'
import { getSession, type LiveSession } from '../live.ts'
import { shortage } from '../placement/admission.ts'
import { dirtyBytes, hostDirtyBytes } from './disk-space.ts'

const KiB = 1024
const GiB = KiB ** 3
/** No disk of a host that this is for is written faster. */
const BYTES_PER_MS = (4 * GiB) / 1000
const MIN_MS = 50
const MAX_MS = 5000
const RETRY_MS = 500
/** Pause between two samples, as a multiple of the time that a sample takes: sampling uses at most a fifth of the time. */
const REST_PER_SAMPLE = 4
/** Within this distance of the threshold, sample each session: the ones that write are known by the difference between two samples. */
const NEAR_BYTES = GiB
/** Growth is measured from a sample that is at most about this old. */
const BASELINE_MS = 1000
const GROWN_BYTES = 256 * KiB
const PAUSE_DEADLINE_MS = 2000

/** Bytes by session id. Each has its own zero point, so only differences between samples mean something. */
type Usage = ReadonlyMap<string, number>

export class DiskWatch {
  readonly #context: SessionContext
  readonly #samples: Periodic
  #baseline: { at: number; usage: Usage } | null = null
  /** Sessions that are being paused or stopped. */
  readonly #suspending = new Map<string, Promise<void>>()

  constructor(context: SessionContext) {
    this.#context = context
    this.#samples = new Periodic({
      work: () => this.#sample(),
      onError: err => {
        context.log.error({ err }, 'free disk space could not be read; retrying')
        return RETRY_MS
      },
      maxMs: Number.POSITIVE_INFINITY,
    })
  }

  start(): void {
    this.#samples.start(0)
  }

  /** Resolves when a sample and the pauses under way are over. */
  async stop(): Promise<void> {
    await this.#samples.stop()
    await Promise.all(this.#suspending.values())
  }

  /** Returns the milliseconds until the next sample. */
  async #sample(): Promise<number> {
    const { config, dataDir } = this.#context
    const sessions = this.#context.live
      .all()
      .filter(({ record }) => this.#context.backends.get(record.backend)?.diskSpace !== undefined)
    const { blocks, bavail, bsize } = statfsSync(dataDir)
    const { floor, pause } = diskThresholds({ floorMb: config.overcommit.disk_floor_mb }, blocks * bsize)
    const free = bavail * bsize
    const distance = free - hostDirtyBytes() - pause
    if (distance > NEAR_BYTES || sessions.length === 0) {
      this.#baseline = null
      return untilNext(distance)
    }
    const began = performance.now()
    const { usage, dirty } = await this.#usageOf(sessions)
    const left = free - dirty
    const grown = this.#grown(usage, left < pause)
    if (left < pause)
      for (const session of sessions)
        if (left < floor || grown.has(session.record.id)) this.#suspend(session, shortage(left, pause))
    return Math.max(untilNext(left - pause), (performance.now() - began) * REST_PER_SAMPLE)
  }

  /** Disk space that each session has taken, or will take when its dirty pages are flushed. */
  async #usageOf(sessions: readonly LiveSession[]): Promise<{ usage: Usage; dirty: number }> {
    const usage = new Map<string, number>()
    for (const name of new Set(sessions.map(({ record }) => record.backend)))
      for (const [id, promised] of (await this.#context.backends.get(name)?.diskSpace?.(true))?.promised ?? [])
        usage.set(id, -promised)
    let dirty = 0
    for (const [id, bytes] of await dirtyBytes(sessions)) {
      dirty += bytes
      usage.set(id, (usage.get(id) ?? 0) + bytes)
    }
    return { usage, dirty }
  }

  /** While space is short the baseline stays, so that a session that writes slowly is found too. */
  #grown(usage: Usage, isShort: boolean): ReadonlySet<string> {
    const now = performance.now()
    const { at, usage: before } = this.#baseline ?? { at: now, usage }
    // A session that has just started is measured from its first sample.
    this.#baseline = now - at > BASELINE_MS && !isShort ? { at: now, usage } : { at, usage: new Map([...usage, ...before]) }
    return new Set([...usage].filter(([id, bytes]) => bytes - (before.get(id) ?? bytes) >= GROWN_BYTES).map(([id]) => id))
  }

  #suspend({ record: { id, status } }: LiveSession, why: string): void {
    if (status !== 'running' || this.#suspending.has(id)) return
    const suspended = pauseOrStop(this.#context, id, why)
      .catch(err => this.#context.log.error({ err, sessionId: id }, 'session that fills the disk could not be stopped'))
      .finally(() => this.#suspending.delete(id))
    this.#suspending.set(id, suspended)
  }
}

async function pauseOrStop(context: SessionContext, id: string, why: string): Promise<void> {
  await context.mutex.run(id, async () => {
    const record = await getSession(context, id)
    if (!context.live.get(id) || record.status !== 'running') return
    const change = (verb: 'resume' | 'start') =>
      ({
        reason: 'disk_pressure',
        error_message: `the host is full: ${why}; free disk space, then \`sandglass ${verb} ${record.name}\``,
      }) as const
    try {
      await setFrozen(context, record, 'pause', change('resume'), context.log, PAUSE_DEADLINE_MS)
    } catch (err) {
      context.log.warn({ err, sessionId: id }, 'session could not be paused in time; stopping it')
      await stop(context, record, change('start'), context.log, { isGraceful: false })
    }
  })
}

const untilNext = (distance: number): number => Math.min(Math.max(distance / BYTES_PER_MS, MIN_MS), MAX_MS)
