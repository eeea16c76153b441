// Prints the progress of each layer.
import type { ImageProgress } from '@sandglass/sdk'
import { bytesText } from '../../output/bytes-text.ts'

const EVERY_MS = 100
const BAR = 24

/** One progress line per layer on stderr, redrawn in place. Shown only on a terminal. */
export class LayerLines implements Disposable {
  readonly #isShown: boolean
  readonly #layers = new Map<string, ImageProgress>()
  #lastDrawn = 0
  #lines = 0

  constructor(options: { quiet: boolean }) {
    this.#isShown = process.stderr.isTTY === true && !options.quiet
  }

  show(layer: ImageProgress): void {
    this.#layers.set(layer.digest, layer)
    const now = performance.now()
    if (!this.#isShown || now - this.#lastDrawn < EVERY_MS) return
    this.#lastDrawn = now
    this.#draw()
  }

  /** Draws the last state, which stays on the screen. */
  [Symbol.dispose](): void {
    if (this.#isShown && this.#layers.size > 0) this.#draw()
  }

  #draw(): void {
    const up = this.#lines > 0 ? `\x1b[${this.#lines}A` : ''
    const lines = this.#shownLines()
    process.stderr.write(`${up}${lines.map(line => `\r\x1b[K${line}\n`).join('')}`)
    this.#lines = lines.length
  }

  /** If there are more layers than lines on the screen, they share one line, since lines that scrolled away cannot be redrawn. */
  #shownLines(): string[] {
    const all = [...this.#layers.values()]
    const width = process.stderr.columns || 80
    if (all.length < (process.stderr.rows || 24) - 1) return all.map(layer => lineOf(layer).slice(0, width - 1))
    const sum = (pick: (layer: ImageProgress) => number) => all.reduce((total, layer) => total + pick(layer), 0)
    const done = all.filter(layer => layer.phase === 'done').length
    const total = { doneBytes: sum(layer => layer.doneBytes), totalBytes: sum(layer => layer.totalBytes) }
    return [`${done} of ${all.length} layers  ${amount(total)}`.slice(0, width - 1)]
  }
}

function lineOf({ digest, phase, ...bytes }: ImageProgress): string {
  const name = digest.replace(/^sha256:/, '').slice(0, 12)
  const detail = phase === 'downloading' || phase === 'unpacking' ? `${bar(bytes)} ${amount(bytes)}` : bytesText(bytes.totalBytes)
  return `${name}  ${phase.padEnd(11)}  ${detail}`
}

type Bytes = Pick<ImageProgress, 'doneBytes' | 'totalBytes'>

const amount = ({ doneBytes, totalBytes }: Bytes) => `${bytesText(doneBytes)} of ${bytesText(totalBytes)}`

function bar({ doneBytes, totalBytes }: Bytes): string {
  const full = totalBytes > 0 ? Math.floor((BAR * doneBytes) / totalBytes) : BAR
  return `[${'='.repeat(full)}${' '.repeat(BAR - full)}]`
}
