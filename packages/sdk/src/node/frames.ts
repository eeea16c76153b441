// WebSocket frames of RFC 6455 for a client: frames of the server are not masked, frames of the client are; no extensions.

export const OPCODES = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const
const KNOWN: ReadonlySet<number> = new Set(Object.values(OPCODES))

/** Close codes of RFC 6455, section 7.4.1. */
export const CLOSE = { normal: 1000, protocolError: 1002, noStatus: 1005, lost: 1006, notUtf8: 1007, tooLarge: 1009 } as const

/** Largest message. A frame with a larger length is refused before its payload is read. */
export const MAX_MESSAGE = 16 * 1024 * 1024
const MAX_CONTROL = 125
/** Two bytes and the longest form of the length. */
const MAX_HEADER = 10

export type Frame = { isFinal: boolean; opcode: number; payload: Uint8Array<ArrayBuffer> }

/** The server violated the protocol; `closeCode` goes into the close frame. */
export class FrameError extends Error {
  readonly closeCode: number

  constructor(message: string, closeCode: number = CLOSE.protocolError) {
    super(message)
    this.closeCode = closeCode
  }
}

/**
 * Parses pieces of any size into frames. A payload inside one piece is a view of it; a payload across pieces is copied into one buffer, so
 * that at most one frame is buffered.
 */
export class FrameReader {
  #header = new Uint8Array(MAX_HEADER)
  #headerSize = 0
  #payload: Uint8Array<ArrayBuffer> | undefined
  #filled = 0;

  *read(piece: Uint8Array<ArrayBuffer>): Generator<Frame, void, undefined> {
    for (let at = 0; at < piece.length; ) {
      at += this.#takeHeader(piece.subarray(at))
      const length = this.#length()
      if (length === undefined) return
      const rest = piece.subarray(at)
      if (this.#payload === undefined && rest.length >= length) {
        at += length
        yield this.#finish(rest.subarray(0, length))
        continue
      }
      this.#payload ??= new Uint8Array(length)
      const part = rest.subarray(0, length - this.#filled)
      this.#payload.set(part, this.#filled)
      this.#filled += part.length
      at += part.length
      if (this.#filled === length) yield this.#finish(this.#payload)
    }
  }

  /** Returns how many bytes belong to the header. */
  #takeHeader(piece: Uint8Array): number {
    let taken = 0
    for (; this.#headerSize < this.#headerNeeds() && taken < piece.length; taken++)
      this.#header[this.#headerSize++] = piece[taken] ?? 0
    return taken
  }

  /** The size of the header, as far as the bytes so far tell. */
  #headerNeeds(): number {
    if (this.#headerSize < 2) return 2
    const short = (this.#header[1] ?? 0) & 0x7f
    return short === 127 ? 10 : short === 126 ? 4 : 2
  }

  /** The length of the payload; undefined while the header is incomplete. SECURITY: an invalid header is refused before memory is allocated. */
  #length(): number | undefined {
    if (this.#headerSize < this.#headerNeeds()) return undefined
    const [first = 0, second = 0] = this.#header
    if ((first & 0x70) !== 0) throw new FrameError('a frame uses an extension that was not agreed')
    if ((second & 0x80) !== 0) throw new FrameError('a frame of the server is masked')
    const opcode = first & 0x0f
    if (!KNOWN.has(opcode)) throw new FrameError(`a frame has the unknown opcode ${opcode}`)
    const short = second & 0x7f
    if (opcode >= OPCODES.close && (short > MAX_CONTROL || (first & 0x80) === 0))
      throw new FrameError('a control frame is too long or in parts')
    const view = new DataView(this.#header.buffer)
    const length = short === 127 ? Number(view.getBigUint64(2)) : short === 126 ? view.getUint16(2) : short
    if (length > MAX_MESSAGE) throw new FrameError(`a frame of ${length} bytes is too large`, CLOSE.tooLarge)
    return length
  }

  #finish(payload: Uint8Array<ArrayBuffer>): Frame {
    const [first = 0] = this.#header
    this.#headerSize = 0
    this.#payload = undefined
    this.#filled = 0
    return { isFinal: (first & 0x80) !== 0, opcode: first & 0x0f, payload }
  }
}

/** One whole message, or a control frame. `mask` is four unpredictable bytes. */
export function encodeFrame(opcode: number, payload: Uint8Array, mask: Uint8Array): Uint8Array<ArrayBuffer> {
  const size = payload.length
  const lengthBytes = size > 0xffff ? 8 : size > MAX_CONTROL ? 2 : 0
  const start = 2 + lengthBytes + 4
  const frame = new Uint8Array(start + size)
  const view = new DataView(frame.buffer)
  frame[0] = 0x80 | opcode
  frame[1] = 0x80 | (lengthBytes === 8 ? 127 : lengthBytes === 2 ? 126 : size)
  if (lengthBytes === 8) view.setBigUint64(2, BigInt(size))
  else if (lengthBytes === 2) view.setUint16(2, size)
  frame.set(mask, start - 4)
  for (let i = 0; i < size; i++) frame[start + i] = (payload[i] ?? 0) ^ (mask[i & 3] ?? 0)
  return frame
}

/** The payload of a close frame; the reason is cut to the space left. */
export function closePayload(code: number, reason = ''): Uint8Array {
  const payload = new Uint8Array(MAX_CONTROL)
  new DataView(payload.buffer).setUint16(0, code)
  const { written = 0 } = new TextEncoder().encodeInto(reason, payload.subarray(2))
  return payload.subarray(0, 2 + written)
}

export function readClose(payload: Uint8Array): { code: number; reason: string } {
  if (payload.length === 0) return { code: CLOSE.noStatus, reason: '' }
  if (payload.length === 1) throw new FrameError('a close frame has half a code')
  const code = ((payload[0] ?? 0) << 8) | (payload[1] ?? 0)
  if (!isSendable(code)) throw new FrameError(`a close frame has the code ${code}`)
  return { code, reason: readText(payload.subarray(2)) }
}

export function readText(payload: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(payload)
  } catch (cause) {
    throw Object.assign(new FrameError('a text is not UTF-8', CLOSE.notUtf8), { cause })
  }
}

/** Codes that are valid in a close frame: those of the protocol except the three reserved ones, and those of applications. */
const isSendable = (code: number) =>
  (code >= 1000 && code <= 1014 && ![1004, 1005, 1006].includes(code)) || (code >= 3000 && code <= 4999)
