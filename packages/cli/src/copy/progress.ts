// The progress line of a copy.
import { stripVTControlCharacters } from 'node:util'
import { bytesText } from '../output/bytes-text.ts'
import { printable } from '../output/printable.ts'

const SHOW_AFTER_MS = 1000
const EVERY_MS = 200
/** The rate is measured over this many draws. */
const DRAWS = 15
const BAR_WIDTH = 24

/** A progress line on stderr that is redrawn in place. It is shown only on a terminal, and only after a second. */
export class Progress implements Disposable {
  /** The total of all sources. */
  bytes = 0
  readonly #timer: NodeJS.Timeout | undefined
  readonly #started = performance.now()
  #name = ''
  #doneBefore = 0
  #total: number | undefined
  #draws: { at: number; bytes: number }[] = []
  #isDrawn = false

  constructor(options: { isQuiet: boolean }) {
    if (process.stderr.isTTY === true && !options.isQuiet) this.#timer = setInterval(() => this.#draw(), EVERY_MS).unref()
  }

  /** Starts the next source. `total` is its size in bytes, if known. */
  begin(name: string, total?: number): void {
    this.#name = name
    this.#total = total
    this.#doneBefore = this.bytes
  }

  add(count: number): void {
    this.bytes += count
  }

  /** Passes the bytes on and counts them. */
  async *through(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const piece of source) {
      this.add(piece.length)
      yield piece
    }
  }

  /** Erases the line, so that other output can be written in its place. */
  clear(): void {
    if (this.#isDrawn) process.stderr.write('\r\x1b[K')
    this.#isDrawn = false
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.clear()
  }

  #draw(): void {
    const now = performance.now()
    const oldest = this.#draws.at(-DRAWS) ?? this.#draws[0] ?? { at: this.#started, bytes: 0 }
    this.#draws = [...this.#draws, { at: now, bytes: this.bytes }].slice(-DRAWS)
    if (now - this.#started < SHOW_AFTER_MS || this.bytes === oldest.bytes) return
    const bytesPerSecond = ((this.bytes - oldest.bytes) * 1000) / Math.max(1, now - oldest.at)
    const line = progressLine({
      name: this.#name,
      bytes: this.bytes - this.#doneBefore,
      total: this.#total,
      bytesPerSecond,
      columns: process.stderr.columns || 80,
    })
    process.stderr.write(`\r\x1b[K${line}`)
    this.#isDrawn = true
  }
}

type Shown = { name: string; bytes: number; total: number | undefined; bytesPerSecond: number; columns: number }

/** `NAME [====    ] 45%  12.3 MiB of 27.0 MiB  8.1 MiB/s  2 s left`; with an unknown total, the name, bytes and rate alone. */
export function progressLine({ name, bytes, total, bytesPerSecond, columns }: Shown): string {
  const rate = `${bytesText(Math.round(bytesPerSecond))}/s`
  const parts = [bytesText(bytes), rate]
  if (total !== undefined && total > 0) {
    const done = Math.min(1, bytes / total)
    const full = Math.floor(BAR_WIDTH * done)
    parts[0] = `[${'='.repeat(full)}${' '.repeat(BAR_WIDTH - full)}] ${Math.floor(100 * done)}%  ${bytesText(bytes)} of ${bytesText(total)}`
    if (bytesPerSecond > 0 && bytes < total) parts.push(`${timeText((total - bytes) / bytesPerSecond)} left`)
  }
  const detail = parts.join('  ')
  const width = columns - 1 - detail.length - 2
  return width < 8 ? detail.slice(0, columns - 1) : `${shortened(stripVTControlCharacters(printable(name)), width)}  ${detail}`
}

const shortened = (name: string, width: number) => (name.length > width ? `…${name.slice(name.length - width + 1)}` : name)

function timeText(seconds: number): string {
  const whole = Math.ceil(seconds)
  if (whole < 60) return `${whole} s`
  return whole < 3600 ? `${Math.ceil(whole / 60)} min` : `${Math.ceil(whole / 3600)} h`
}
