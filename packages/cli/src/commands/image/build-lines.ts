// Prints the steps and the output of a build.
import { styleText } from 'node:util'
import type { BuildStep, ImageProgress } from '@sandglass/sdk'
import { printable, printableLines } from '../../output/printable.ts'
import { LayerLines } from './layer-lines.ts'

/** Prints a build on stderr: one line per step, its output below it, and on a terminal the progress of layers. */
export class BuildLines implements Disposable {
  readonly #isQuiet: boolean
  #layers: LayerLines | undefined
  #step = 0

  constructor(options: { quiet: boolean }) {
    this.#isQuiet = options.quiet
  }

  step({ step, steps, instruction, cached }: BuildStep): void {
    if (cached) this.#write(`      ${dim('cached')}\n`)
    else this.#write(`${bold(`[${step}/${steps}]`)} ${printable(instruction)}\n`)
    this.#step = step
  }

  output(text: string): void {
    const lines = printableLines(text.replaceAll('\r\n', '\n').replace(/\n$/, ''))
    this.#write(
      lines
        .split('\n')
        .map(line => `${this.#step > 0 ? '      ' : ''}${line}\n`)
        .join(''),
    )
  }

  layer(layer: ImageProgress): void {
    this.#layers ??= new LayerLines({ quiet: this.#isQuiet })
    this.#layers.show(layer)
  }

  [Symbol.dispose](): void {
    this.#layers?.[Symbol.dispose]()
    this.#layers = undefined
  }

  /** Ends the progress lines, which cannot be redrawn once there is text below them. */
  #write(text: string): void {
    this[Symbol.dispose]()
    if (!this.#isQuiet) process.stderr.write(text)
  }
}

const bold = (text: string) => styleText('bold', text, { stream: process.stderr })
const dim = (text: string) => styleText('dim', text, { stream: process.stderr })
