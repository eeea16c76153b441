// Reads the first message of a TLS client, to learn the name that it asks for before anything is answered.

export type PeekedHello =
  | {
      readonly kind: 'hello'
      /** As sent, not normalised; null if the client names no server. */
      readonly serverName: string | null
      /** Protocols that the client offers, the preferred one first. */
      readonly alpn: readonly string[]
      /** True if there is an encrypted ClientHello. Its key is unknown here: a server answers to the outer name, which is `serverName`. */
      readonly hasEch: boolean
    }
  | { readonly kind: 'incomplete' }
  | { readonly kind: 'not-tls' }

/** SECURITY: what a client can make us keep before it has said where it wants to go. */
export const MAX_HELLO_BYTES = 16 * 1024

const HANDSHAKE = 22
const CLIENT_HELLO = 1
const EXTENSION = { serverName: 0, alpn: 16, ech: 0xfe0d }

/** `bytes` is everything that has arrived. The message may be cut anywhere, also into several TLS records. */
export function peekClientHello(bytes: Buffer): PeekedHello {
  const message = collectMessage(bytes)
  if (typeof message === 'string') return { kind: message }
  try {
    return parseHello(new Cursor(message))
  } catch (error) {
    if (error instanceof RangeError) return { kind: 'not-tls' }
    throw error
  }
}

/** The body of the handshake message, without its header. */
function collectMessage(bytes: Buffer): Buffer | 'incomplete' | 'not-tls' {
  const message = Buffer.allocUnsafe(Math.min(bytes.length, MAX_HELLO_BYTES))
  let length = 0
  let at = 0
  while (at < bytes.length) {
    const header = bytes.subarray(at, at + 5)
    if (header[0] !== HANDSHAKE || (header[1] ?? 3) !== 3 || (header[2] ?? 0) > 4) return 'not-tls'
    if (header.length < 5) break
    const recordLength = header.readUInt16BE(3)
    if (recordLength === 0 || recordLength > MAX_HELLO_BYTES) return 'not-tls'
    length += bytes.copy(message, length, at + 5, at + 5 + recordLength)
    at += 5 + recordLength
    if (length > 0 && message[0] !== CLIENT_HELLO) return 'not-tls'
    if (length < 4) continue
    const expected = 4 + message.readUIntBE(1, 3)
    if (expected > MAX_HELLO_BYTES) return 'not-tls'
    if (length >= expected) return message.subarray(4, expected)
  }
  return bytes.length >= MAX_HELLO_BYTES ? 'not-tls' : 'incomplete'
}

function parseHello(hello: Cursor): PeekedHello {
  hello.take(2 + 32) // version and random
  hello.vector(1) // session id
  hello.vector(2) // cipher suites
  hello.vector(1) // compression methods
  let serverName: string | null = null
  let alpn: string[] = []
  const seen = new Set<number>()
  const extensions = hello.isAtEnd ? hello : hello.vector(2)
  while (!extensions.isAtEnd) {
    const type = extensions.number(2)
    const body = extensions.vector(2)
    // SECURITY: two server names could be read differently by us and by the server.
    if (seen.has(type)) throw new RangeError('an extension occurs twice')
    seen.add(type)
    if (type === EXTENSION.serverName) serverName = parseServerName(body)
    else if (type === EXTENSION.alpn) alpn = parseAlpn(body)
  }
  return { kind: 'hello', serverName, alpn, hasEch: seen.has(EXTENSION.ech) }
}

function parseServerName(body: Cursor): string {
  const list = body.vector(2)
  const type = list.number(1)
  const name = list.vector(2).rest()
  if (type !== 0 || name.length === 0 || !list.isAtEnd || !body.isAtEnd) throw new RangeError('not exactly one server name')
  return name.toString('latin1')
}

function parseAlpn(body: Cursor): string[] {
  const list = body.vector(2)
  const protocols: string[] = []
  while (!list.isAtEnd) protocols.push(list.vector(1).rest().toString('latin1'))
  return protocols
}

/** Reads lengths and what they announce. Throws RangeError beyond the end. */
class Cursor {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  take(length: number): Buffer {
    if (this.#at + length > this.#bytes.length) throw new RangeError('a length exceeds the message')
    this.#at += length
    return this.#bytes.subarray(this.#at - length, this.#at)
  }

  number(bytes: 1 | 2): number {
    return this.take(bytes).readUIntBE(0, bytes)
  }

  vector(lengthBytes: 1 | 2): Cursor {
    return new Cursor(this.take(this.number(lengthBytes)))
  }

  rest(): Buffer {
    return this.take(this.#bytes.length - this.#at)
  }
}
