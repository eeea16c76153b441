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
import { BROKEN_PIPE, onBrokenPipe } from './broken-pipe.ts'
import { Collected } from './collected.ts'
import { type Farewell, forwardInterrupts, INTERRUPTED, leave, TERMINATED } from './interrupts.ts'
import { limitNote, timeoutNote } from './notes.ts'
import { safeSink } from './safe-sink.ts'
import { sendStdin } from './send-stdin.ts'

type ProcessRun = ProcessOptions & Pick<Join, 'isRaw' | 'leaving' | 'name'>

/** Runs a program with its own stdin, stdout and stderr joined to ours, or with all it printed in one reply at the end. */
export async function runProcess(
  session: Session,
  argv: string[],
  { isRaw, leaving, name, ...options }: ProcessRun,
  context: Context,
): Promise<number> {
  const started = await startProcess(session, argv, { ...options, holdOutput: true }, context)
  if (typeof started === 'number') return started
  return joinProcess(
    session,
    started,
    { isRaw, leaving, name, sendsStdin: options.stdin === true, timeoutMs: options.timeoutMs, size: options.tty },
    context,
  )
}

export type Join = {
  isRaw: boolean
  sendsStdin: boolean
  /** The timeout it was started with, for the note about it. */
  timeoutMs?: number | undefined
  /** The size that its terminal has. */
  size?: TerminalSize | undefined
  /** What notes call the session, or null for a session that is removed afterwards. */
  name: string | null
  /** What becomes of a process that the user leaves before it ends; it is killed when absent. */
  leaving?: Leaving | undefined
}

export type Leaving = Farewell & {
  /** What the third Ctrl-C does, as in "Ctrl-C once more kills it". */
  third: string
  /** Called when signals go to the process from here on. */
  onJoin?(): void
}

/** How long the kill may take to get on its way. */
const PATIENCE_MS = 3000

/** Joins the streams of a process to ours until it ends, and gives its exit code. */
export async function joinProcess(
  session: Session,
  started: ProcessInfo,
  { isRaw, sendsStdin, timeoutMs, size, name, leaving }: Join,
  context: Context,
): Promise<number> {
  const since = performance.now()
  const attached = await session.processes.attach(started.pid)
  if (started.tty) {
    const code = await runTerminal(attached, size)
    if (code === 'detached') {
      context.say(`${(leaving?.end && leaving.farewell) ?? `detached; process ${started.pid} goes on`}\n`)
      return 0
    }
    const { limitHit } = await attached.exit
    if (limitHit) context.say(limitNote(name, limitHit))
    return code
  }
  const left = leaving ?? { third: 'kills it', end: () => kill(attached) }
  const leaveWith = (code: number) => void leave(code, left, context)
  using _interrupts = forwardInterrupts(
    { send: () => signal(attached, 'INT'), third: left.third, leave: () => leaveWith(INTERRUPTED) },
    context,
  )
  using _signals = forwardSignals(attached, () => leaveWith(TERMINATED))
  leaving?.onJoin?.()
  if (sendsStdin) void sendStdin(attached, context.report)
  const ended = context.json ? await collect(attached, started, since, context) : await carry(attached, isRaw)
  if (ended.timedOut) context.say(timeoutNote(timeoutMs ?? 0))
  if (ended.limitHit && !context.json) context.say(limitNote(name, ended.limitHit))
  return process.stdout.errored ? BROKEN_PIPE : ended.exitCode
}

/** Starts a program that runs on with nobody attached, and prints its pid. */
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

/** A program that is not there or may not be run ends with the code a shell would give. */
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

/** A program may ignore the request to end, and a sandbox may not pass it on: at the second one the user leaves. */
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

/** Whatever becomes of the connection. */
const kill = (attached: Attachment) =>
  Promise.race([attached.signal('KILL').catch(() => undefined), setTimeout(PATIENCE_MS, undefined, { ref: false })])

/** A lost connection ends the reading of output, which tells it. */
const signal = (attached: Attachment, name: 'INT' | (typeof FORWARDED)[keyof typeof FORWARDED]) =>
  void attached.signal(name).catch(() => undefined)

async function carry(attached: Attachment, isRaw: boolean): Promise<Exit> {
  const sinks = { stdout: safeSink(process.stdout, isRaw), stderr: safeSink(process.stderr, isRaw) }
  onBrokenPipe([process.stdout, process.stderr], () => signal(attached, 'TERM'))
  try {
    for await (const { stream, data } of attached) await sinks[stream](data)
    return await attached.exit
  } finally {
    process.stdin.destroy()
  }
}

/** The reply of exec, with stdout and stderr also apart. */
async function collect(attached: Attachment, { cwd }: ProcessInfo, since: number, { print }: Context): Promise<Exit> {
  const kept = { output: new Collected(), stdout: new Collected(), stderr: new Collected() }
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
