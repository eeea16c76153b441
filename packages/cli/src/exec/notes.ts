// What is said on stderr about a command, beside its output.
import { type LimitHit, limitText } from '@sandglass/contract/tables'
import type { Context } from '../command.ts'
import { shortDuration } from '../parser/duration.ts'

const WAIT_NOTICED_MS = 1000

/** What is said of a command that failed when its session had reached a limit, and how to raise that limit. `name` is null for a session of run. */
export function limitNote(name: string | null, hit: LimitHit): string {
  return `sandglass: ${name === null ? 'the session' : `session ${name}`} ${limitText(hit)}\n  next: ${nextStep(name, hit)}\n`
}

function nextStep(name: string | null, { limit, value }: LimitHit): string {
  const flag = FLAGS[limit](value * 2)
  // What run has made is removed at the end.
  if (name === null) return `sandglass run ${flag} …`
  if (limit === 'disk_mb') return `remove files, or make a session with more: sandglass new ${flag}`
  const inTurn = limit === 'pids_limit' ? ' (if that is refused while it runs: stop, resize and start it)' : ''
  return `sandglass resize ${name} ${flag}${inTurn}, or sandglass new ${flag}`
}

const size = (mb: number) => (mb % 1024 === 0 ? `${mb / 1024}g` : `${mb}m`)

const FLAGS: Readonly<Record<LimitHit['limit'], (value: number) => string>> = {
  memory_mb: mb => `--memory ${size(mb)}`,
  disk_mb: mb => `--disk ${size(mb)}`,
  pids_limit: count => `--pids-limit ${count}`,
}

/** What is said of a command that --timeout ended. */
export const timeoutNote = (timeoutMs: number) =>
  `sandglass: ended after ${duration(timeoutMs)} (--timeout)\n  next: allow more with --timeout, or leave the flag out: without it there is no limit\n`

/** The same of one that waited for a busy shell all the time. */
export const neverRanNote = (timeoutMs: number, shell: string) =>
  `sandglass: the command never ran: shell ${shell} was busy for ${duration(timeoutMs)} (--timeout)\n  next: allow more with --timeout, use another shell with --shell, or end what runs there with sandglass interrupt\n`

const duration = (ms: number) => (ms % 1000 === 0 ? shortDuration(ms) : `${ms}ms`)

/** Says that a command waits for a busy shell, once the wait is long enough to be noticed. */
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
    const tell = () => this.#say(`sandglass: waiting for shell ${this.#shell}: it is running another command\n`)
    this.#timer = isWaiting ? setTimeout(tell, WAIT_NOTICED_MS).unref() : undefined
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
  }
}
