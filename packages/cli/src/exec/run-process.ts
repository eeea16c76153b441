import { constants } from 'node:os'
import { type Attachment, type Exit, type ProcessInfo, type ProcessOptions, SandglassError, type Session } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { toJson } from '../show-session.ts'
import { runTerminal } from '../terminal/attach-terminal.ts'
import { BROKEN_PIPE, onBrokenPipe } from './broken-pipe.ts'
import { Collected } from './collected.ts'
import { forwardInterrupts } from './interrupts.ts'
import { limitNote } from './limit-note.ts'
import { safeSink } from './safe-sink.ts'
import { sendStdin } from './send-stdin.ts'
import { timeoutNote } from './timeout-note.ts'

type ProcessRun = ProcessOptions & { isRaw: boolean }

/** Runs a program with its own stdin, stdout and stderr joined to ours, or with all it printed in one reply at the end. */
export async function runProcess(
  session: Session,
  argv: string[],
  { isRaw, ...options }: ProcessRun,
  context: Context,
): Promise<number> {
  const since = performance.now()
  const started = await startProcess(session, argv, options, context)
  if (typeof started === 'number') return started
  const attached = await session.processes.attach(started.pid)
  if (options.tty) {
    const code = await runTerminal(attached, options.tty)
    if (code === 'detached') {
      context.say(`detached; process ${started.pid} goes on\n`)
      return 0
    }
    const { limitHit } = await attached.exit
    if (limitHit) context.say(limitNote(session.id, limitHit))
    return code
  }
  const farewell = `left it alone; process ${started.pid} goes on in the session`
  using _interrupts = forwardInterrupts({ send: () => signal(attached, 'INT'), farewell }, context)
  using _signals = forwardSignals(attached, () => context.say(`sandglass: ${farewell}\n`))
  if (options.stdin) void sendStdin(attached, context.report)
  const exit = context.json ? await collect(attached, started, since, context) : await carry(attached, isRaw)
  if (exit.timedOut) context.say(timeoutNote(options.timeoutMs ?? 0, 'allow more with --timeout; without the flag there is none'))
  if (exit.limitHit && !context.json) context.say(limitNote(session.id, exit.limitHit))
  return process.stdout.errored ? BROKEN_PIPE : exit.exitCode
}

/** A program that is not there or may not be run ends with the code a shell would give. */
async function startProcess(
  session: Session,
  argv: string[],
  options: ProcessOptions,
  { report }: Context,
): Promise<ProcessInfo | number> {
  try {
    return await session.processes.start(argv, { ...options, holdOutput: true })
  } catch (error) {
    const isProgram = error instanceof SandglassError && (error.detail as { path?: string } | undefined)?.path === argv[0]
    if (!isProgram || !(error.is('FILE_NOT_FOUND') || error.is('PERMISSION_DENIED'))) throw error
    await report(error)
    return error.is('FILE_NOT_FOUND') ? 127 : 126
  }
}

const TERMINATED = 128 + constants.signals.SIGTERM
const FORWARDED = { SIGTERM: 'TERM', SIGHUP: 'HUP', SIGQUIT: 'QUIT', SIGUSR1: 'USR1', SIGUSR2: 'USR2' } as const

/** A program may not mind the request to end, and a sandbox may not pass it on: the second one ends this process alone. */
function forwardSignals(attached: Attachment, sayFarewell: () => void): Disposable {
  let requests = 0
  const handlers = (Object.keys(FORWARDED) as (keyof typeof FORWARDED)[]).map(name => {
    const handler = () => {
      if (name === 'SIGTERM' && ++requests > 1) {
        sayFarewell()
        process.exit(TERMINATED)
      }
      signal(attached, FORWARDED[name])
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
