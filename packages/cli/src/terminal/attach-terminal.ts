// `shell`, `attach` and `exec -t`: this terminal, connected to one inside.
import { setTimeout as delay } from 'node:timers/promises'
import { type Attachment, SandglassError, type Session, type TerminalSize } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { printable } from '../output/printable.ts'
import { usage } from '../parser/parse.ts'
import { createDetachReader } from './detach-key.ts'
import { openRawTerminal } from './raw-terminal.ts'

/** Opens a terminal on a shell of the session `name`, until the shell ends or the user detaches. Returns the exit code. */
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

/** Waits for a restart of the daemon, which the shell survives. */
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

/** Connects our terminal to the attached process. Every key is sent, Ctrl-C included. `known` is the size that the process has. */
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
  // stdin is paused after an earlier attach, and a listener alone does not resume it.
  process.stdin.on('data', onData).on('end', onEnd).resume()
  process.stdout.on('resize', onResize)
  try {
    // The size may have changed before the listener was added. An unchanged size is not sent, since the program may have ended.
    if (terminalSize().cols !== known?.cols || terminalSize().rows !== known.rows) onResize()
    for await (const { data } of attached) terminal.show(data)
    return isDetached ? 'detached' : (await attached.exit).exitCode
  } finally {
    process.stdin.off('data', onData).off('end', onEnd)
    process.stdout.off('resize', onResize)
    terminal.restore()
  }
}

/** Ignores failed writes: the loop that reads reports a lost connection. */
const send = (sent: Promise<void>) => void sent.catch(() => undefined)

export const terminalSize = () => ({ cols: process.stdout.columns || 80, rows: process.stdout.rows || 24 })

export function requireTerminal(): void {
  if (process.stdin.isTTY && process.stdout.isTTY) return
  throw usage('this command needs a terminal', 'without one, run commands with `sandglass exec NAME -c TEXT`')
}
