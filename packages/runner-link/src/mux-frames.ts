// Frames of the multiplexer: kind (u8), stream (u32), length (u32), check (u32), big-endian, then the payload. The check is the
// CRC-32 of the payload: what a client that died left of a frame must not be completed by what the next one sends.
import { crc32 } from 'node:zlib'
import { ProtocolError } from './wire.ts'

export const OPEN = 1
export const DATA = 2
export const CREDIT = 3
export const END = 4
export const RESET = 5
export const MAX_PAYLOAD = 65_536

export const HEADER_BYTES = 13

export function frameHeader(kind: number, stream: number, length: number, check: number): Buffer {
  const header = Buffer.allocUnsafe(HEADER_BYTES)
  header.writeUInt8(kind, 0)
  header.writeUInt32BE(stream, 1)
  header.writeUInt32BE(length, 5)
  header.writeUInt32BE(check, 9)
  return header
}

export interface FrameHandlers {
  /** A piece of a DATA payload, as it arrives. */
  data(stream: number, payload: Buffer): void
  credit(stream: number, bytes: number): void
  end(stream: number): void
  reset(stream: number): void
}

/** Takes what the runner sends, in pieces of any size. Throws ProtocolError at what it may not send; nothing may be pushed after that. */
export class FrameParser {
  readonly #handlers: FrameHandlers
  #header: Buffer = Buffer.alloc(0)
  #kind = 0
  #stream = 0
  #payloadLeft = 0
  #check = 0
  #sum = 0
  #credit: Buffer = Buffer.alloc(0)

  constructor(handlers: FrameHandlers) {
    this.#handlers = handlers
  }

  push(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#payloadLeft > 0) {
        const piece = chunk.subarray(at, at + this.#payloadLeft)
        at += piece.length
        this.#payloadLeft -= piece.length
        this.#payload(piece)
        continue
      }
      const missing = HEADER_BYTES - this.#header.length
      const part = chunk.subarray(at, at + missing)
      at += part.length
      this.#header = this.#header.length === 0 ? part : Buffer.concat([this.#header, part])
      if (this.#header.length < HEADER_BYTES) return
      this.#begin(this.#header)
      this.#header = Buffer.alloc(0)
    }
  }

  #begin(header: Buffer): void {
    this.#kind = header.readUInt8(0)
    this.#stream = header.readUInt32BE(1)
    const length = header.readUInt32BE(5)
    if (!isAllowed(this.#kind, length)) throw new ProtocolError(`a frame of kind ${this.#kind} and length ${length}`)
    this.#payloadLeft = length
    this.#check = header.readUInt32BE(9)
    this.#sum = 0
    if (this.#kind === END) this.#handlers.end(this.#stream)
    else if (this.#kind === RESET) this.#handlers.reset(this.#stream)
  }

  #payload(piece: Buffer): void {
    this.#sum = crc32(piece, this.#sum)
    if (this.#payloadLeft === 0 && this.#sum !== this.#check) throw new ProtocolError('a payload does not match its check')
    if (this.#kind === DATA) {
      this.#handlers.data(this.#stream, piece)
      return
    }
    this.#credit = Buffer.concat([this.#credit, piece])
    if (this.#payloadLeft > 0) return
    const bytes = this.#credit.readUInt32BE(0)
    this.#credit = Buffer.alloc(0)
    this.#handlers.credit(this.#stream, bytes)
  }
}

function isAllowed(kind: number, length: number): boolean {
  if (kind === DATA) return length >= 1 && length <= MAX_PAYLOAD
  if (kind === CREDIT) return length === 4
  return (kind === END || kind === RESET) && length === 0
}
