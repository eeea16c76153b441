// `exec --`, `run` and `attach --pid`: a program with its own streams.
import { setTimeout } from 'node:timers/promises'
import {
  type Attachment,
  type Exit,
  type ProcessInfo,
  type ProcessOptions,
  SandglassError,
  type Session,
  type TerminalSize,
} from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { toJson } from '../output/show-session.ts'
import { runTerminal } from '../terminal/attach-terminal.ts'
import { BoundedOutput } from './bounded-output.ts'
import { BROKEN_PIPE, INTERRUPTED, TERMINATED } from './exit-codes.ts'
import { type EarlyExit, exitEarly, forwardInterrupts } from './interrupts.ts'
import { limitNote, timeoutNote } from './notes.ts'
import { onBrokenPipe, safeSink } from './output.ts'
import { sendStdin } from './stdin.ts'

type ProcessRun = ProcessOptions & Pick<AttachOptions, 'isRaw' | 'earlyExit' | 'onAttached' | 'name'>

/** Runs a program with its stdin, stdout and stderr connected to ours; with --json, prints one reply at the end. */
export async function runProcess(
  session: Session,
  argv: string[],
  { isRaw, earlyExit, onAttached, name, ...options }: ProcessRun,
  context: Context,
): Promise<number> {
  const started = await startProcess(session, argv, { ...options, holdOutput: true }, context)
  if (typeof started === 'number') return started
  const { timeoutMs, tty: size } = options
  const attach = { isRaw, earlyExit, onAttached, name, sendsStdin: options.stdin === true, timeoutMs, size }
  return attachProcess(session, started, attach, context)
}

export type AttachOptions = {
  isRaw: boolean
  sendsStdin: boolean
  /** The timeout that the process was started with, for the note about it. */
  timeoutMs?: number | undefined
  /** The current size of the terminal inside. */
  size?: TerminalSize | undefined
  /** The name of the session for notes; null for a session that is removed afterwards. */
  name: string | null
  /** How we exit before the process has ended; when absent, the process is killed. */
  earlyExit?: EarlyExit | undefined
  /** Called when signals are forwarded to the process from then on. */
  onAttached?: (() => void) | undefined
}

/** How long the request to kill may take. */
const KILL_TIMEOUT_MS = 3000

/** Connects the streams of a process to ours until it ends, and returns its exit code. */
export async function attachProcess(
  session: Session,
  started: ProcessInfo,
  { isRaw, sendsStdin, timeoutMs, size, name, earlyExit, onAttached }: AttachOptions,
  context: Context,
): Promise<number> {
  const since = performance.now()
  const attached = await session.processes.attach(started.pid)
  if (started.tty) {
    const code = await runTerminal(attached, size)
    if (code === 'detached') {
      context.say(`${(earlyExit?.cleanUp && earlyExit.message) ?? `detached; process ${started.pid} keeps running`}\n`)
      return 0
    }
    const { limitHit } = await attached.exit
    if (limitHit) context.say(limitNote(name, limitHit))
    return code
  }
  const early = earlyExit ?? { effect: 'kills it', cleanUp: () => kill(attached) }
  const exit = (code: number) => void exitEarly(code, early, context)
  using _interrupts = forwardInterrupts(
    { send: () => signal(attached, 'INT'), effect: early.effect, exit: () => exit(INTERRUPTED) },
    context,
  )
  using _signals = forwardSignals(attached, () => exit(TERMINATED))
  onAttached?.()
  if (sendsStdin) void sendStdin(attached, context.report)
  const ended = context.json ? await collect(attached, started, since, context) : await show(attached, isRaw)
  if (ended.timedOut) context.say(timeoutNote(timeoutMs ?? 0))
  if (ended.limitHit && !context.json) context.say(limitNote(name, ended.limitHit))
  return process.stdout.errored ? BROKEN_PIPE : ended.exitCode
}

/** Starts a program without attaching to it, and prints its pid. */
export async function startDetached(
  session: Session,
  argv: string[],
  options: ProcessOptions,
  context: Context,
): Promise<number> {
  const started = await startProcess(session, argv, { ...options, detach: true }, context)
  if (typeof started === 'number') return started
  context.print(context.json ? toJson(started) : `${started.pid}\n`)
  return 0
}

/** Returns the exit code of a shell, 127 or 126, for a program that does not exist or may not be executed. */
async function startProcess(
  session: Session,
  argv: string[],
  options: ProcessOptions,
  { report }: Context,
): Promise<ProcessInfo | number> {
  try {
    return await session.processes.start(argv, options)
  } catch (error) {
    const isProgram = error instanceof SandglassError && (error.detail as { path?: string } | undefined)?.path === argv[0]
    if (!isProgram || !(error.is('FILE_NOT_FOUND') || error.is('PERMISSION_DENIED'))) throw error
    await report(error)
    return error.is('FILE_NOT_FOUND') ? 127 : 126
  }
}

const FORWARDED = { SIGTERM: 'TERM', SIGHUP: 'HUP', SIGQUIT: 'QUIT', SIGUSR1: 'USR1', SIGUSR2: 'USR2' } as const

/** A program may ignore SIGTERM, and a sandbox may not deliver it, so the second SIGTERM calls `onSecond`. */
function forwardSignals(attached: Attachment, onSecond: () => void): Disposable {
  let requests = 0
  const handlers = (Object.keys(FORWARDED) as (keyof typeof FORWARDED)[]).map(name => {
    const handler = () => {
      if (name === 'SIGTERM' && ++requests > 1) onSecond()
      else signal(attached, FORWARDED[name])
    }
    process.on(name, handler)
    return [name, handler] as const
  })
  return {
    [Symbol.dispose]() {
      for (const [name, handler] of handlers) process.off(name, handler)
    },
  }
}

/** Resolves even if the connection is lost. */
const kill = (attached: Attachment) =>
  Promise.race([attached.signal('KILL').catch(() => undefined), setTimeout(KILL_TIMEOUT_MS, undefined, { ref: false })])

/** Ignores a lost connection, which the reader of the output reports. */
const signal = (attached: Attachment, name: 'INT' | (typeof FORWARDED)[keyof typeof FORWARDED]) =>
  void attached.signal(name).catch(() => undefined)

async function show(attached: Attachment, isRaw: boolean): Promise<Exit> {
  const sinks = { stdout: safeSink(process.stdout, isRaw), stderr: safeSink(process.stderr, isRaw) }
  onBrokenPipe([process.stdout, process.stderr], () => signal(attached, 'TERM'))
  try {
    for await (const { stream, data } of attached) await sinks[stream](data)
    return await attached.exit
  } finally {
    process.stdin.destroy()
  }
}

/** Prints the API's reply of exec, with stdout and stderr also apart. */
async function collect(attached: Attachment, { cwd }: ProcessInfo, since: number, { print }: Context): Promise<Exit> {
  const kept = { output: new BoundedOutput(), stdout: new BoundedOutput(), stderr: new BoundedOutput() }
  try {
    for await (const { stream, data } of attached) {
      kept.output.add(data)
      kept[stream].add(data)
    }
    const exit = await attached.exit
    const [output, stdout, stderr] = [kept.output.text(), kept.stdout.text(), kept.stderr.text()]
    const truncated = Object.values(kept).some(part => part.isTruncated)
    const durationMs = Math.round(performance.now() - since)
    print(toJson({ ...exit, cwd, output, stdout, stderr, truncated, shellExited: false, durationMs }))
    return exit
  } finally {
    process.stdin.destroy()
  }
}
