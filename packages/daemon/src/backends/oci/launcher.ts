// Runs `runner launch`, the short program that mounts and starts what Node cannot. One process per job.
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { Socket } from 'node:net'
import type { MachineState } from './record.ts'

interface Result {
  readonly ok: boolean
  readonly error?: string
  readonly state?: MachineState
  readonly probed?: { readonly mounts: string; readonly loop: string; readonly idmap: string }
  readonly phases?: readonly { readonly name: string; readonly usec: number }[]
}

/** A launcher job failed, in the launcher's own words. */
export class LaunchError extends Error {
  override readonly name = 'LaunchError'
}

const MAX_REPLY = 1024 * 1024

/**
 * Keeps one launcher started and waiting for its job, so that a start does not pay for forking the daemon. The waiting one holds nothing but
 * a mount namespace, and ends when its stdin does: with the daemon, however that dies.
 */
export class Launcher {
  readonly #program: string
  #spare: ChildProcessWithoutNullStreams | null = null

  constructor(program: string) {
    this.#program = program
  }

  /** Does one job. On abort the process is killed, which unmounts what it mounted. */
  async run(job: object, signal: AbortSignal): Promise<Result> {
    signal.throwIfAborted()
    const child = this.#take()
    const kill = () => child.kill('SIGKILL')
    signal.addEventListener('abort', kill, { once: true })
    try {
      const result = await converse(child, job)
      signal.throwIfAborted()
      if (!result.ok) throw new LaunchError(result.error ?? 'unknown')
      return result
    } finally {
      signal.removeEventListener('abort', kill)
      this.warm()
    }
  }

  /** Makes the spare when there is none. */
  warm(): void {
    if (this.#spare !== null) return
    const child = this.#spawn()
    this.#spare = child
    child.once('exit', () => {
      if (this.#spare === child) this.#spare = null
    })
    // A daemon that has nothing else to do may exit: the spare is no reason to stay.
    child.unref()
    for (const stream of child.stdio) if (stream instanceof Socket) stream.unref()
  }

  #take(): ChildProcessWithoutNullStreams {
    const spare = this.#spare
    if (spare === null) return this.#spawn()
    this.#spare = null
    spare.ref()
    for (const stream of spare.stdio) if (stream instanceof Socket) stream.ref()
    return spare
  }

  #spawn(): ChildProcessWithoutNullStreams {
    // Its own session: Ctrl-C at the daemon's terminal must not reach a half-made sandbox. No environment: the daemon's may hold keys.
    const child = spawn(this.#program, ['launch'], { stdio: 'pipe', detached: true, cwd: '/', env: {} })
    // A launcher that cannot be started or dies early shows as a missing reply.
    child.on('error', () => child.stdout.destroy())
    child.stdin.on('error', () => child.stdin.destroy())
    return child
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
    )
  }
  return JSON.parse(reply) as Result
}
