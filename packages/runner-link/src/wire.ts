// Messages of the runner protocol on a byte stream: a line of JSON, then as many raw bytes as its field `bytes` says.
import type { Readable, Writable } from 'node:stream'
import { SandglassError } from '@sandglass/contract/tables'

export const MAX_LINE_BYTES = 8 * 1024 * 1024
/** Largest body on the shared connection; a body in a stream has no limit. */
export const MAX_BODY_BYTES = 64 * 1024 * 1024

const NEWLINE = 0x0a

export type Message = { readonly [field: string]: unknown; readonly type: string; readonly bytes?: number }
export type Fields = { readonly [field: string]: unknown }

/** The other side violated the protocol; the connection is closed. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError'
}

/**
 * Reads messages on demand, so that a slow reader slows the sender. One caller at a time: `next`, then the body of that message, then `next`
 * again; an unread body is skipped.
 */
export class MessageReader {
  readonly #source: Readable
  #unread: Buffer | undefined
  #bodyLeft = 0
  #ended = false
  #error: Error | undefined
  #wake: (() => void) | undefined
  readonly #onReadable = () => this.#wake?.()

  constructor(source: Readable) {
    this.#source = source
    source.on('readable', this.#onReadable)
    source.once('end', () => this.#end(undefined))
    source.once('error', error => this.#end(error))
    source.once('close', () => this.#end(new Error('connection closed')))
    if (source.destroyed) this.#end(source.errored ?? new Error('connection closed'))
  }

  /** The next message; null when the connection ended between two messages. */
  async next(): Promise<Message | null> {
    while (this.#bodyLeft > 0) await this.chunk()
    const line = await this.#line()
    if (line === null) return null
    const message = parseLine(line) ?? this.#violation('a line is not a message')
    this.#bodyLeft = message.bytes ?? 0
    return message
  }

  /** Unread bytes of the current body. */
  get bodyLeft(): number {
    return this.#bodyLeft
  }

  /** The next piece of the current body, without a copy; null at its end. */
  async chunk(): Promise<Buffer | null> {
    if (this.#bodyLeft === 0) return null
    const chunk = this.#take() ?? (await this.#pull())
    if (chunk === null) throw new ProtocolError('connection ended inside a body')
    if (chunk.length > this.#bodyLeft) {
      this.#unread = chunk.subarray(this.#bodyLeft)
      const last = chunk.subarray(0, this.#bodyLeft)
      this.#bodyLeft = 0
      return last
    }
    this.#bodyLeft -= chunk.length
    return chunk
  }

  async *body(): AsyncGenerator<Buffer, void, undefined> {
    for (let chunk = await this.chunk(); chunk !== null; chunk = await this.chunk()) yield chunk
  }

  /** The whole current body. A body larger than `maxBytes` ends the connection before it is read. */
  async collect(maxBytes = MAX_BODY_BYTES): Promise<Buffer> {
    if (this.#bodyLeft > maxBytes) this.#violation('a body is too large')
    const first = (await this.chunk()) ?? Buffer.alloc(0)
    if (this.#bodyLeft === 0) return first
    const chunks = [first]
    for await (const chunk of this.body()) chunks.push(chunk)
    return Buffer.concat(chunks)
  }

  /** Stops reading and puts unread bytes back into the source, which then belongs to the caller. */
  release(): void {
    this.#source.off('readable', this.#onReadable)
    const unread = this.#take()
    if (unread !== null) this.#source.unshift(unread)
  }

  async #line(): Promise<Buffer | null> {
    const parts: Buffer[] = []
    let length = 0
    for (;;) {
      const chunk = this.#take() ?? (await this.#pull())
      if (chunk === null) return length === 0 ? null : this.#violation('connection ended inside a line')
      const end = chunk.indexOf(NEWLINE)
      const part = end === -1 ? chunk : chunk.subarray(0, end)
      length += part.length
      if (length > MAX_LINE_BYTES) this.#violation('a line is too long')
      if (end === -1) {
        parts.push(part)
        continue
      }
      if (end + 1 < chunk.length) this.#unread = chunk.subarray(end + 1)
      if (parts.length === 0) return part
      parts.push(part)
      return Buffer.concat(parts)
    }
  }

  #take(): Buffer | null {
    const unread = this.#unread
    if (unread === undefined) return null
    this.#unread = undefined
    return unread
  }

  async #pull(): Promise<Buffer | null> {
    for (;;) {
      const chunk: Buffer | null = this.#source.read()
      if (chunk !== null) return chunk
      if (this.#error) throw this.#error
      if (this.#ended) return null
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
  }

  #end(error: Error | undefined): void {
    if (this.#ended) return
    this.#ended = true
    this.#error = error
    this.#wake?.()
  }

  #violation(what: string): never {
    const violation = new ProtocolError(what)
    this.#source.destroy(violation)
    throw violation
  }
}

export function encodeMessage(message: Fields & { type: string }): string {
  const line = `${JSON.stringify(message)}\n`
  if (line.length * 3 > MAX_LINE_BYTES && Buffer.byteLength(line) > MAX_LINE_BYTES)
    throw new SandglassError('INVALID_REQUEST', { issue: 'the request is larger than a message to the runner may be' })
  return line
}

/** Sends a message and its body in one write. The body is not copied and must not change before `onSent`. */
export function writeMessage(
  to: Writable,
  message: Fields & { type: string },
  body?: Uint8Array,
  onSent?: (error: unknown) => void,
): void {
  if (body === undefined) {
    to.write(encodeMessage(message))
    return
  }
  const line = encodeMessage({ ...message, bytes: body.length })
  to.cork()
  to.write(line)
  if (body.length > 0) to.write(body, onSent)
  to.uncork()
}

/** The error that an error message of the runner carries. */
export function errorReply({ code, message, detail }: Message): SandglassError {
  return SandglassError.fromWire({
    code: typeof code === 'string' ? code : 'INTERNAL',
    message: typeof message === 'string' ? message : 'the runner gave no reason',
    detail: typeof detail === 'object' && detail !== null ? detail : {},
  })
}

/** Null when the line is not a message. */
export function parseLine(line: Buffer): Message | null {
  const value = parseJson(line)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null
  const { type, bytes } = value as { type?: unknown; bytes?: unknown }
  if (typeof type !== 'string') return null
  if (bytes !== undefined && !(Number.isSafeInteger(bytes) && (bytes as number) >= 0)) return null
  return value as Message
}

function parseJson(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString())
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
