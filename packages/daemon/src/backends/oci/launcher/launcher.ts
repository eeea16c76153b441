// Runs `launcher oci`, which mounts and starts what Node cannot. One process per job; runner/LAUNCHER.md describes it.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Socket } from 'node:net'
import { jobLine, type LauncherProcess, parseResult, readResult, spawnLauncher } from '../../launcher/exchange.ts'
import { type OciJob, OciResult, type Preparation } from '../../launcher/schema.ts'

/** A job failed; the message is the launcher's if it gave a valid result. */
export class LaunchError extends Error {
  override readonly name = 'LaunchError'
  /** A signal ended the launcher or the runtime: the same job may succeed when it is repeated. */
  readonly wasKilled: boolean

  constructor(message: string, wasKilled = false, options?: ErrorOptions) {
    super(message, options)
    this.wasKilled = wasKilled
  }
}

/** Repeats work once if a signal ended the launcher or the runtime, which may have been killed while it waited for its job. The failed work has undone itself. */
export async function againIfKilled<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const cause = error instanceof Error ? error.cause : null
    if (signal.aborted || !(cause instanceof LaunchError && cause.wasKilled)) throw error
    return await work()
  }
}

/** True for a job that failed or timed out. */
export const isLaunchFailure = (error: unknown): error is Error =>
  error instanceof LaunchError || (error instanceof DOMException && error.name === 'TimeoutError')

const WARM_AFTER_MS = 10
const CLOSE_MS = 5_000

/** Starts need a prepared launcher, in the cgroups of its machine. Plain jobs need no preparation. */
type Kind = 'plain' | 'start'

interface Waiting {
  readonly child: LauncherProcess
  /** Name of the cgroups of its machine. */
  readonly group: string
}

/**
 * Keeps one launcher of each kind waiting for its job, so that a start waits neither for a fork of the daemon nor for entering cgroups. A
 * waiting launcher ends when its stdin ends: with the daemon, however that ends.
 */
export class Launcher {
  readonly program: string
  readonly #waiting = new Map<Kind, Waiting>()
  readonly #busy = new Set<string>()
  /** The first job of a launcher for starts. Set once the host is known. */
  #preparation: ((group: string) => Preparation) | null = null
  #onLost: ((group: string) => void) | null = null
  #isClosed = false

  constructor(program: string) {
    this.program = program
  }

  /** `onLost` is called for a launcher that was killed while it waited. Its cgroups and its disk are left. */
  prepareStarts(preparation: (group: string) => Preparation, onLost: (group: string) => void): void {
    this.#preparation = preparation
    this.#onLost = onLost
    this.#warm('start')
  }

  /** Ends the waiting launchers, which remove their cgroups and their disks. Jobs still run afterwards, each in a new launcher. */
  async close(): Promise<void> {
    this.#isClosed = true
    const waiting = [...this.#waiting.keys()].map(kind => this.#take(kind))
    await Promise.all(waiting.map(({ child }) => endWaiting(child)))
  }

  /** Names of the cgroups of all launchers, waiting or busy. */
  groups(): string[] {
    return [...this.#busy, ...[...this.#waiting.values()].map(({ group }) => group)]
  }

  /** Does a job other than a start. An abort kills the process, which unmounts what it mounted. */
  async run(job: OciJob, signal: AbortSignal): Promise<OciResult> {
    return await this.#run('plain', () => job, signal)
  }

  /** Starts a machine in the cgroups of a prepared launcher. With a preparation of its own, a new launcher does it. */
  async start(
    job: (group: string) => OciJob,
    signal: AbortSignal,
    preparation?: (group: string) => Preparation,
  ): Promise<OciResult> {
    return await this.#run('start', job, signal, preparation)
  }

  async #run(
    kind: Kind,
    job: (group: string) => OciJob,
    signal: AbortSignal,
    preparation?: (group: string) => Preparation,
  ): Promise<OciResult> {
    signal.throwIfAborted()
    const { child, group } = preparation === undefined ? this.#take(kind) : this.#spawn(preparation)
    this.#busy.add(group)
    const kill = () => child.kill('SIGKILL')
    signal.addEventListener('abort', kill, { once: true })
    try {
      const result = await converse(child, job(group))
      signal.throwIfAborted()
      if (!result.ok) throw new LaunchError(result.error ?? 'unknown', result.killed)
      return result
    } finally {
      signal.removeEventListener('abort', kill)
      this.#busy.delete(group)
      // A fork blocks the daemon for a millisecond or two: the caller of this job continues first.
      setTimeout(() => this.#warm(kind), WARM_AFTER_MS).unref()
    }
  }

  #warm(kind: Kind): void {
    if (this.#isClosed || this.#waiting.has(kind)) return
    const waiting = this.#spawn(this.#preparationOf(kind))
    this.#waiting.set(kind, waiting)
    const { child } = waiting
    child.once('exit', () => {
      if (this.#waiting.get(kind) !== waiting) return
      this.#waiting.delete(kind)
      if (kind === 'start') this.#onLost?.(waiting.group)
    })
    // A waiting launcher must not keep a daemon running that has nothing else to do.
    child.unref()
    for (const stream of child.stdio) if (stream instanceof Socket) stream.unref()
  }

  #take(kind: Kind): Waiting {
    const waiting = this.#waiting.get(kind)
    if (waiting === undefined) return this.#spawn(this.#preparationOf(kind))
    this.#waiting.delete(kind)
    waiting.child.ref()
    for (const stream of waiting.child.stdio) if (stream instanceof Socket) stream.ref()
    return waiting
  }

  #preparationOf(kind: Kind): ((group: string) => Preparation) | null {
    return kind === 'plain' ? null : this.#preparation
  }

  #spawn(preparation: ((group: string) => Preparation) | null): Waiting {
    const child = spawnLauncher(this.program, ['oci'], 'pipe')
    const group = randomBytes(8).toString('hex')
    if (preparation !== null) child.stdin.write(jobLine({ prepare: preparation(group) }))
    return { child, group }
  }
}

/** A launcher that does not end is killed; the next daemon removes what it leaves. */
async function endWaiting(child: LauncherProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  const timer = setTimeout(() => child.kill('SIGKILL'), CLOSE_MS)
  child.stdin.end()
  await exit
  clearTimeout(timer)
}

async function converse(child: LauncherProcess, job: OciJob): Promise<OciResult> {
  let complaint = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(0, 2000)
  })
  child.stdin.end(jobLine(job))
  const line = await readResult(child)
  if (line === null) {
    if (child.exitCode === null && child.signalCode === null && child.pid !== undefined) await once(child, 'exit')
    const status = child.pid === undefined ? 'not started' : (child.signalCode ?? child.exitCode)
    const why = `the launcher ended without a result (${status}) ${complaint.trim()}`.trim()
    throw new LaunchError(why, child.signalCode !== null)
  }
  return parseResult(OciResult, line, (why, cause) => new LaunchError(why, false, { cause }))
}
