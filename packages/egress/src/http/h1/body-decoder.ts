// Decodes the body of an HTTP/1 message: takes the framing off, and finds where the body ends.
import { HttpError } from '../errors.ts'
import { hasBareLineFeed, parseFieldLines, sortTrailers } from '../fields.ts'
import type { HeaderList } from '../message.ts'
import { isTokenCode } from '../syntax.ts'
import type { Framing } from './head.ts'

const MAX_SIZE_LINE = 1024
const MAX_TRAILER_BYTES = 16 * 1024
const NO_TRAILERS: HeaderList = []

export interface BodyDecoder {
  /** Calls `emit` with the bytes of the body in `bytes`. Returns how many of `bytes` it used: all of them, unless the body is complete. */
  decode(bytes: Buffer, emit: (data: Buffer) => void): number
  readonly isComplete: boolean
  /** True if the end of the connection is the end of the body. */
  readonly endsWithConnection: boolean
  /** Bytes that are to come; null if nobody knows. */
  readonly remaining: number | null
  readonly trailers: HeaderList
}

export function createDecoder(framing: Framing): BodyDecoder {
  if (framing.kind === 'chunked') return new ChunkedDecoder()
  return new PlainDecoder(framing.kind === 'length' ? framing.length : framing.kind === 'none' ? 0 : null)
}

class PlainDecoder implements BodyDecoder {
  readonly trailers = NO_TRAILERS
  remaining: number | null

  constructor(length: number | null) {
    this.remaining = length
  }

  get isComplete(): boolean {
    return this.remaining === 0
  }

  get endsWithConnection(): boolean {
    return this.remaining === null
  }

  decode(bytes: Buffer, emit: (data: Buffer) => void): number {
    if (this.remaining === null || bytes.length <= this.remaining) {
      if (this.remaining !== null) this.remaining -= bytes.length
      if (bytes.length > 0) emit(bytes)
      return bytes.length
    }
    const used = this.remaining
    this.remaining = 0
    if (used > 0) emit(bytes.subarray(0, used))
    return used
  }
}

const CR = 13
const LF = 10

/** What the next byte belongs to. An extension is `;name` or `;name=value` with tokens; it is checked and dropped. */
type State = 'size' | 'extension-name' | 'extension-value' | 'size-lf' | 'data' | 'data-cr' | 'data-lf' | 'trailers' | 'complete'

class ChunkedDecoder implements BodyDecoder {
  readonly endsWithConnection = false
  readonly remaining = null
  trailers: HeaderList = NO_TRAILERS
  #state: State = 'size'
  #size = 0
  /** Digits of the size, or characters of the part of an extension. */
  #digits = 0
  #line = 0
  #left = 0
  #trailerText = ''

  get isComplete(): boolean {
    return this.#state === 'complete'
  }

  decode(bytes: Buffer, emit: (data: Buffer) => void): number {
    let at = 0
    while (at < bytes.length && this.#state !== 'complete') {
      if (this.#state === 'data') {
        const end = Math.min(bytes.length, at + this.#left)
        emit(at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end))
        this.#left -= end - at
        at = end
        if (this.#left === 0) this.#state = 'data-cr'
      } else if (this.#state === 'trailers') at = this.#takeTrailers(bytes, at)
      else {
        this.#step(bytes[at] ?? 0)
        at += 1
      }
    }
    return at
  }

  #step(byte: number): void {
    switch (this.#state) {
      case 'data-cr':
        if (byte !== CR) throw malformed()
        this.#state = 'data-lf'
        return
      case 'data-lf':
        if (byte !== LF) throw malformed()
        this.#beginLine()
        return
      case 'size-lf':
        if (byte !== LF) throw malformed()
        this.#left = this.#size
        this.#state = this.#size === 0 ? 'trailers' : 'data'
        return
      default:
        this.#line += 1
        if (this.#line > MAX_SIZE_LINE) throw malformed()
        this.#takeSizeLine(byte)
    }
  }

  #takeSizeLine(byte: number): void {
    const digit = this.#state === 'size' ? hexDigit(byte) : -1
    if (digit !== -1) {
      this.#digits += 1
      if (this.#digits > 13) throw malformed()
      this.#size = this.#size * 16 + digit
    } else if (this.#state !== 'size' && isTokenCode(byte)) this.#digits += 1
    else if (this.#digits === 0) throw malformed()
    else if (byte === CR) this.#state = 'size-lf'
    else if (byte === 0x3b) this.#beginPart('extension-name')
    else if (byte === 0x3d && this.#state === 'extension-name') this.#beginPart('extension-value')
    else throw malformed()
  }

  #beginPart(state: State): void {
    this.#state = state
    this.#digits = 0
  }

  #beginLine(): void {
    this.#beginPart('size')
    this.#size = 0
    this.#line = 0
  }

  /** The section ends with an empty line, which is the first one if there are no trailers. */
  #takeTrailers(bytes: Buffer, start: number): number {
    const before = this.#trailerText.length
    const text = this.#trailerText + bytes.toString('latin1', start, Math.min(bytes.length, start + MAX_TRAILER_BYTES + 4))
    const end = text.startsWith('\r\n') ? 0 : text.indexOf('\r\n\r\n', Math.max(0, before - 3))
    if (end > MAX_TRAILER_BYTES || (end === -1 && text.length > MAX_TRAILER_BYTES))
      throw new HttpError('head_too_large', 'too many trailers')
    if (end === -1) {
      if (hasBareLineFeed(text, before)) throw new HttpError('malformed', 'a trailer ends with a bare line feed')
      this.#trailerText = text
      return bytes.length
    }
    const length = end === 0 ? 2 : end + 4
    this.trailers = end === 0 ? NO_TRAILERS : sortTrailers(parseFieldLines(text.slice(0, end + 2), 0))
    this.#trailerText = ''
    this.#state = 'complete'
    return start + length - before
  }
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}

const malformed = () => new HttpError('malformed', 'a chunk of the body is not valid')
