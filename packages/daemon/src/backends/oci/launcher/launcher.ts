// Runs `runner launch`, the short program that mounts and starts what Node cannot. One process per job.
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Socket } from 'node:net'
import type { FoundPaths } from '../../rootfs/overlay-layer.ts'
import type { MachineState } from '../record.ts'

/** What a launcher is told before its job; the shape is the launcher's. */
export type Preparation = object

/** What this host refuses, each in words; '' for what works. */
export interface Probed {
  readonly mounts: string
  readonly loop: string
  readonly idmap: string
  readonly overlay: string
}

interface Result {
  readonly ok: boolean
  readonly error?: string
  /** A signal ended the runtime. */
  readonly killed?: boolean
  readonly state?: MachineState
  readonly probed?: Probed
  readonly looked?: FoundPaths
  /** What the runtime compiled the seccomp profile to, in base64. */
  readonly filter?: string
  readonly phases?: readonly { readonly name: string; readonly usec: number }[]
}

/** A launcher job failed, in the launcher's own words. */
export class LaunchError extends Error {
  override readonly name = 'LaunchError'
  /** The launcher or the runtime was ended by a signal: the same job may work with others. */
  readonly wasKilled: boolean

  constructor(message: string, wasKilled = false) {
    super(message)
    this.wasKilled = wasKilled
  }
}

/** A launcher or runtime that waits for its job can be killed while nobody looks. What was begun is undone by then. */
export async function againIfKilled<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const cause = error instanceof Error ? error.cause : null
    if (signal.aborted || !(cause instanceof LaunchError && cause.wasKilled)) throw error
    return await work()
  }
}

/** A job that failed, or was not done in time. */
export const isLaunchFailure = (error: unknown): error is Error =>
  error instanceof LaunchError || (error instanceof DOMException && error.name === 'TimeoutError')

const MAX_REPLY = 1024 * 1024
const WARM_AFTER_MS = 10

/** Jobs that need nothing beforehand, and starts, which need to be in their machine's cgroups. */
type Kind = 'plain' | 'start'

interface Waiting {
  readonly child: ChildProcessWithoutNullStreams
  /** Name of the cgroups that are its machine's. */
  readonly group: string
}

/**
 * Keeps a launcher of each kind started and waiting for its job, so that a start pays neither for forking the daemon nor for entering
 * cgroups. A waiting one ends when its stdin does: with the daemon, however that dies.
 */
export class Launcher {
  readonly #program: string
  readonly #waiting = new Map<Kind, Waiting>()
  readonly #busy = new Set<string>()
  /** What a launcher for a start is told first. Set once the host is known. */
  #preparation: ((group: string) => Preparation) | null = null
  #onLost: ((group: string) => void) | null = null

  constructor(program: string) {
    this.#program = program
  }

  /** `onLost` hears of one that somebody killed while it waited: what it had got ready is still there. */
  prepareStarts(preparation: (group: string) => Preparation, onLost: (group: string) => void): void {
    this.#preparation = preparation
    this.#onLost = onLost
    this.#warm('start')
  }

  /** Names of the cgroups that launchers are in, or are starting a machine in. */
  groups(): string[] {
    return [...this.#busy, ...[...this.#waiting.values()].map(({ group }) => group)]
  }

  /** Does a job that is no start. On abort the process is killed, which unmounts what it mounted. */
  async run(job: object, signal: AbortSignal): Promise<Result> {
    return await this.#run('plain', () => job, signal)
  }

  /**
   * Starts a machine in the cgroups that the launcher says it is in. With a preparation of its own, one that has not prepared for anything else
   * does it.
   */
  async start(
    job: (group: string) => object,
    signal: AbortSignal,
    preparation?: (group: string) => Preparation,
  ): Promise<Result> {
    return await this.#run('start', job, signal, preparation)
  }

  async #run(
    kind: Kind,
    job: (group: string) => object,
    signal: AbortSignal,
    preparation?: (group: string) => Preparation,
  ): Promise<Result> {
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
      // Forking holds the daemon up for a millisecond or two: whoever waits for this job goes first.
      setTimeout(() => this.#warm(kind), WARM_AFTER_MS).unref()
    }
  }

  #warm(kind: Kind): void {
    if (this.#waiting.has(kind)) return
    const waiting = this.#spawn(this.#preparationOf(kind))
    this.#waiting.set(kind, waiting)
    const { child } = waiting
    child.once('exit', () => {
      if (this.#waiting.get(kind) !== waiting) return
      this.#waiting.delete(kind)
      if (kind === 'start') this.#onLost?.(waiting.group)
    })
    // A daemon that has nothing else to do may exit: a waiting launcher is no reason to stay.
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
    // Its own session: Ctrl-C at the daemon's terminal must not reach a half-made sandbox. No environment: the daemon's may hold keys.
    const child = spawn(this.#program, ['launch'], { stdio: 'pipe', detached: true, cwd: '/', env: {} })
    // A launcher that cannot be started or dies early shows as a missing reply.
    child.on('error', () => child.stdout.destroy())
    child.stdin.on('error', () => child.stdin.destroy())
    const group = randomBytes(8).toString('hex')
    if (preparation !== null) child.stdin.write(`${JSON.stringify({ prepare: preparation(group) })}\n`)
    return { child, group }
  }
}

async function converse(child: ChildProcessWithoutNullStreams, job: object): Promise<Result> {
  let [reply, complaint] = ['', '']
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(0, 2000)
  })
  child.stdin.end(`${JSON.stringify(job)}\n`)
  const done = Promise.withResolvers<void>()
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    reply += text
    // The line is the answer; the process's own end need not be waited for.
    if (reply.endsWith('\n') || reply.length > MAX_REPLY) done.resolve()
  })
  child.stdout.once('close', done.resolve)
  await done.promise
  if (!reply.endsWith('\n')) {
    if (child.exitCode === null && child.signalCode === null && child.pid !== undefined) await once(child, 'exit')
    throw new LaunchError(
      `the launcher ended without an answer (${child.signalCode ?? child.exitCode ?? 'not started'}) ${complaint.trim()}`.trim(),
      child.signalCode !== null,
    )
  }
  return JSON.parse(reply) as Result
}
