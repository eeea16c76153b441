// Notes on stderr about a command, beside its output.
import { posix } from 'node:path'
import { type LimitHit, limitText } from '@sandglass/contract/tables'
import type { Context } from '../command.ts'
import { shortDuration } from '../parser/duration.ts'

const NOTE_AFTER_MS = 1000

/** For a command that failed after its session had reached a limit: the limit, and how to raise it. `name` is null for a session of run. */
export function limitNote(name: string | null, hit: LimitHit): string {
  return `sandglass: ${name === null ? 'the session' : `session ${name}`} ${limitText(hit)}\n  next: ${nextStep(name, hit)}\n`
}

function nextStep(name: string | null, { limit, value }: LimitHit): string {
  const flag = FLAGS[limit](value * 2)
  // The session of run is removed at the end, so it cannot be resized.
  if (name === null) return `sandglass run ${flag} …`
  if (limit === 'disk_mb') return `remove files, or make a session with more: sandglass new ${flag}`
  const alternative = limit === 'pids_limit' ? ' (if that is refused while it runs: stop, resize and start it)' : ''
  return `sandglass resize ${name} ${flag}${alternative}, or sandglass new ${flag}`
}

const size = (mb: number) => (mb % 1024 === 0 ? `${mb / 1024}g` : `${mb}m`)

const FLAGS: Readonly<Record<LimitHit['limit'], (value: number) => string>> = {
  memory_mb: mb => `--memory ${size(mb)}`,
  disk_mb: mb => `--disk ${size(mb)}`,
  pids_limit: count => `--pids-limit ${count}`,
}

/** For a command that --timeout ended. */
export const timeoutNote = (timeoutMs: number) =>
  `sandglass: ended after ${duration(timeoutMs)} (--timeout)\n  next: allow more with --timeout, or leave the flag out: without it there is no limit\n`

/** For a command that --timeout ended while it waited for a busy shell. */
export const neverRanNote = (timeoutMs: number, shell: string) =>
  `sandglass: the command never ran: shell ${shell} was busy for ${duration(timeoutMs)} (--timeout)\n  next: allow more with --timeout, use another shell with --shell, or end what runs there with sandglass interrupt\n`

const duration = (ms: number) => (ms % 1000 === 0 ? shortDuration(ms) : `${ms}ms`)

/** Prints a note when a command has waited for a busy shell for a second. */
export class WaitNote implements Disposable {
  readonly #shell: string
  readonly #say: Context['say']
  #timer: NodeJS.Timeout | undefined

  constructor(shell: string, { say }: Context) {
    this.#shell = shell
    this.#say = say
  }

  get isWaiting(): boolean {
    return this.#timer !== undefined
  }

  set(isWaiting: boolean): void {
    clearTimeout(this.#timer)
    const note = () => this.#say(`sandglass: waiting for shell ${this.#shell}: it is running another command\n`)
    this.#timer = isWaiting ? setTimeout(note, NOTE_AFTER_MS).unref() : undefined
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
  }
}

/** Programs that are interactive when they have no arguments. */
const INTERACTIVE = /^(ba|da|z|fi|a)?sh$|^python[\d.]*$|^i?python$|^(node|bun|deno|irb|ghci|lua|psql|sqlite3|php|R|julia)$/

/** Explains why a shell or an interpreter that was started from a terminal ends at once: without -t its stdin is empty. */
export function noteNoTerminal(argv: readonly string[], { say }: Context): void {
  const [program = '', ...more] = argv
  if (more.length > 0 || !process.stdin.isTTY || !INTERACTIVE.test(posix.basename(program))) return
  say(`note: stdin of ${posix.basename(program)} is empty; use -t for a terminal\n`)
}
