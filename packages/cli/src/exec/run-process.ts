import { type Attachment, type ProcessOptions, SandglassError, type Session } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { printable } from '../printable.ts'
import { runTerminal } from '../terminal/attach-terminal.ts'
import { createSafeOutput } from '../terminal/safe-output.ts'
import { BROKEN_PIPE, onBrokenPipe, written } from './broken-pipe.ts'

type ProcessRun = ProcessOptions & { isRaw: boolean }

/** Runs a program with its own stdin, stdout and stderr joined to ours. */
export async function runProcess(
  session: Session,
  argv: string[],
  { isRaw, ...options }: ProcessRun,
  { say }: Context,
): Promise<number> {
  const started = await startProcess(session, argv, options)
  if (typeof started === 'number') return started
  const attached = await session.processes.attach(started.pid)
  if (!options.tty) return carry(attached, options.stdin === true, isRaw)
  const code = await runTerminal(attached, options.tty)
  if (code === 'detached') say(`detached; process ${started.pid} goes on\n`)
  return code === 'detached' ? 0 : code
}

/** A program that is not there or may not be run ends with the code a shell would give. */
async function startProcess(session: Session, argv: string[], options: ProcessOptions): Promise<{ pid: number } | number> {
  try {
    return await session.processes.start(argv, { ...options, holdOutput: true })
  } catch (error) {
    const isProgram = error instanceof SandglassError && (error.detail as { path?: string } | undefined)?.path === argv[0]
    if (!isProgram || !(error.is('FILE_NOT_FOUND') || error.is('PERMISSION_DENIED'))) throw error
    process.stderr.write(`sandglass: ${printable(error.message)}\n`)
    return error.is('FILE_NOT_FOUND') ? 127 : 126
  }
}

const FORWARDED = { SIGINT: 'INT', SIGTERM: 'TERM', SIGHUP: 'HUP', SIGQUIT: 'QUIT', SIGUSR1: 'USR1', SIGUSR2: 'USR2' } as const

async function carry(attached: Attachment, hasStdin: boolean, isRaw: boolean): Promise<number> {
  const handlers = (Object.keys(FORWARDED) as (keyof typeof FORWARDED)[]).map(signal => {
    const handler = () => void attached.signal(FORWARDED[signal]).catch(() => undefined) // a lost connection ends the loop below
    process.on(signal, handler)
    return [signal, handler] as const
  })
  if (hasStdin) sendStdin(attached).catch(() => undefined) // likewise
  const sinks = { stdout: sink(process.stdout, isRaw), stderr: sink(process.stderr, isRaw) }
  onBrokenPipe([process.stdout, process.stderr], () => void attached.signal('TERM').catch(() => undefined)) // likewise
  try {
    for await (const { stream, data } of attached) await sinks[stream](data)
    const { exitCode } = await attached.exit
    return process.stdout.errored ? BROKEN_PIPE : exitCode
  } finally {
    for (const [signal, handler] of handlers) process.off(signal, handler)
    process.stdin.destroy()
  }
}

async function sendStdin(attached: Attachment): Promise<void> {
  for await (const piece of process.stdin) await attached.write(piece)
  await attached.end()
}

function sink(output: NodeJS.WriteStream, isRaw: boolean): (data: Uint8Array) => Promise<void> {
  const clean = output.isTTY && !isRaw ? createSafeOutput() : undefined
  return data => written(output, clean ? clean(data) : data)
}
