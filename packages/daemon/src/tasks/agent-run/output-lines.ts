// Splits the output of an agent into lines. A line may come in many pieces and be longer than what is kept of it.
import { LIMITS } from '@sandglass/contract'

export type OutputLine = {
  text: string
  isTruncated: boolean
  /** Position in the output after the line. */
  end: number
}

const NEWLINE = 0x0a

export class OutputLines {
  #position: number
  #pieces: Buffer[] = []
  #kept = 0
  #isTruncated = false
  /** Pieces of the line that `takePart` has not given out yet. */
  #unstored: Buffer[] = []
  #unstoredBytes = 0

  /** `parts` is the beginning of a line that was stored before. */
  constructor(position: number, parts: readonly Buffer[] = []) {
    this.#position = position
    for (const part of parts) this.#keep(part)
    this.takePart()
  }

  get position(): number {
    return this.#position
  }

  push(chunk: Buffer): OutputLine[] {
    const lines: OutputLine[] = []
    let rest = chunk
    for (let end = rest.indexOf(NEWLINE); end !== -1; end = rest.indexOf(NEWLINE)) {
      this.#keep(rest.subarray(0, end))
      this.#position += end + 1
      lines.push(this.#line())
      rest = rest.subarray(end + 1)
    }
    this.#keep(rest)
    this.#position += rest.length
    return lines
  }

  /** Continues at a later position, because the output in between was dropped. */
  skipTo(position: number): void {
    this.#position = Math.max(this.#position, position)
  }

  /** The last line of an output that does not end with a line break; null if there is none. */
  finish(): OutputLine | null {
    return this.#kept === 0 ? null : this.#line()
  }

  /** Bytes of an unfinished line that no call of `takePart` has given out. */
  get unstoredBytes(): number {
    return this.#unstoredBytes
  }

  /** The bytes of the unfinished line that arrived since the last call. */
  takePart(): Buffer {
    const part = Buffer.concat(this.#unstored)
    this.#unstored = []
    this.#unstoredBytes = 0
    return part
  }

  #keep(piece: Buffer): void {
    const room = LIMITS.task_line_bytes.max - this.#kept
    if (piece.length > room) this.#isTruncated = true
    const kept = piece.length > room ? piece.subarray(0, room) : piece
    if (kept.length === 0) return
    this.#pieces.push(kept)
    this.#kept += kept.length
    this.#unstored.push(kept)
    this.#unstoredBytes += kept.length
  }

  #line(): OutputLine {
    const line = { text: Buffer.concat(this.#pieces).toString('utf8'), isTruncated: this.#isTruncated, end: this.#position }
    this.#pieces = []
    this.#kept = 0
    this.#isTruncated = false
    this.#unstored = []
    this.#unstoredBytes = 0
    return line
  }
}
