import { setTimeout as delay } from 'node:timers/promises'
import { type Attachment, SandglassError, type Session, type TerminalSize } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { printable } from '../output/printable.ts'
import { usage } from '../parser/parse.ts'
import { createDetachReader } from './detach-key.ts'
import { openRawTerminal } from './raw-terminal.ts'

/** A terminal on a shell of a session, called `name`, until the shell ends or the user detaches. Gives the exit code. */
export async function attachTerminal(
  session: Session,
  { name, shell }: { name: string; shell?: string },
  { say }: Context,
): Promise<number> {
  requireTerminal()
  let size = terminalSize()
  let attached = await session.attachShell(shell, size)
  say(`attached to ${printable(name)}; ~. at the start of a line detaches, exit ends the shell\r\n`)
  for (;;) {
    try {
      const code = await runTerminal(attached, size)
      if (code === 'detached') say('\ndetached; the shell keeps running\n')
      return code === 'detached' ? 0 : code
    } catch (error) {
      if (!isLost(error)) throw error
      say('\nthe connection was lost; attaching again\n')
      size = terminalSize()
      attached = await attachAgain(session, shell, size)
    }
  }
}

/** A shell outlives the daemon: a restart is waited for. */
async function attachAgain(session: Session, shell: string | undefined, size: TerminalSize): Promise<Attachment> {
  const deadline = Date.now() + REATTACH_MS
  for (;;) {
    try {
      return await session.attachShell(shell, size)
    } catch (error) {
      if (!isLost(error) || Date.now() > deadline) throw error
      await delay(200)
    }
  }
}

const REATTACH_MS = 15_000
const isLost = (error: unknown) =>
  error instanceof SandglassError && (error.is('DAEMON_UNREACHABLE') || error.is('SHUTTING_DOWN'))

/** Gives the terminal to what is attached. Every key goes inside, Ctrl-C included. `known` is the size it has already. */
export async function runTerminal(attached: Attachment, known?: TerminalSize): Promise<number | 'detached'> {
  const terminal = openRawTerminal(process.stdin, process.stdout)
  const readKeys = createDetachReader()
  let isDetached = false
  const onData = (data: Uint8Array) => {
    const keys = readKeys(data)
    if (keys.data.length > 0) send(attached.write(keys.data))
    if (!keys.isDetach) return
    isDetached = true
    attached.close()
  }
  const onEnd = () => attached.close()
  const onResize = () => send(attached.resize(terminalSize()))
  // A terminal that was given back before is paused, and a listener alone does not wake it.
  process.stdin.on('data', onData).on('end', onEnd).resume()
  process.stdout.on('resize', onResize)
  try {
    // The size may have changed before anyone listened. Saying it again would be one more message to a program that may have ended.
    if (terminalSize().cols !== known?.cols || terminalSize().rows !== known.rows) onResize()
    for await (const { data } of attached) terminal.show(data)
    return isDetached ? 'detached' : (await attached.exit).exitCode
  } finally {
    process.stdin.off('data', onData).off('end', onEnd)
    process.stdout.off('resize', onResize)
    terminal.restore()
  }
}

/** A lost connection ends the loop that reads, which tells the user; a failed write has nothing to add. */
const send = (sent: Promise<void>) => void sent.catch(() => undefined)

export const terminalSize = () => ({ cols: process.stdout.columns || 80, rows: process.stdout.rows || 24 })

export function requireTerminal(): void {
  if (process.stdin.isTTY && process.stdout.isTTY) return
  throw usage('this needs a terminal', 'without one, run commands with `sandglass exec NAME -c TEXT`')
}
