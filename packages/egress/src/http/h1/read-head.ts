// Collects the bytes of one head, up to and including the empty line that ends it.
import { HttpError } from '../errors.ts'
import { hasBareLineFeed } from '../fields.ts'
import { isTokenCode } from '../syntax.ts'
import { MAX_HEAD_BYTES } from './head.ts'
import type { Consumer, SocketReader } from './socket-reader.ts'

const END = '\r\n\r\n'
const END_BYTES = Buffer.from(END)

/**
 * The head as latin1 text without the empty line; null if the connection ends before its first byte. `onPart` is called when
 * a part of the head has arrived and not all of it.
 */
export function readHead(reader: SocketReader, onPart?: () => void): Promise<string | null> {
  return new Promise((resolve, reject) => reader.consume(new HeadConsumer(reader, resolve, reject, onPart)))
}

class HeadConsumer implements Consumer {
  readonly #reader: SocketReader
  readonly #resolve: (text: string | null) => void
  readonly #reject: (error: Error) => void
  readonly #onPart: (() => void) | undefined
  /** Of a head that arrives in parts. */
  #text = ''

  constructor(
    reader: SocketReader,
    resolve: (text: string | null) => void,
    reject: (error: Error) => void,
    onPart: (() => void) | undefined,
  ) {
    this.#reader = reader
    this.#resolve = resolve
    this.#reject = reject
    this.#onPart = onPart
  }

  onBytes(bytes: Buffer): number {
    const before = this.#text.length
    if (before === 0) {
      const found = bytes.indexOf(END_BYTES)
      if (found !== -1 && found <= MAX_HEAD_BYTES)
        return this.#succeed(bytes.toString('latin1', 0, found + 2), found + END.length)
    }
    const text = this.#text + bytes.toString('latin1', 0, Math.min(bytes.length, MAX_HEAD_BYTES + END.length - before))
    const end = text.indexOf(END, Math.max(0, before - END.length + 1))
    if (end !== -1) return this.#succeed(text.slice(0, end + 2), end + END.length - before)
    if (text.length > MAX_HEAD_BYTES)
      this.#fail(new HttpError('head_too_large', `the headers are longer than ${MAX_HEAD_BYTES} bytes`))
    else if (!isTokenCode(text.charCodeAt(0))) this.#fail(new HttpError('malformed', 'this is no HTTP message'))
    else if (hasBareLineFeed(text, before)) this.#fail(new HttpError('malformed', 'a line ends with a bare line feed'))
    else if (before === 0) this.#onPart?.()
    this.#text = text
    return bytes.length
  }

  onEnd(error: Error | null): void {
    if (error instanceof HttpError) this.#reject(error)
    else if (this.#text === '') this.#resolve(null)
    else this.#reject(new HttpError('client_gone', 'the connection ended within a head', { cause: error }))
  }

  #succeed(text: string, taken: number): number {
    this.#reader.release()
    this.#resolve(text)
    return taken
  }

  #fail(error: HttpError): void {
    this.#reader.release()
    this.#reject(error)
  }
}
