// Reads a tar. SECURITY: the bytes come out of a sandbox, so every length is bounded before memory is taken for it, and nothing here
// decides where an entry goes.

export type TarEntry = {
  name: string
  /** Links and special files are `other`. */
  kind: 'file' | 'directory' | 'other'
  size: number
  /** To be read before the next entry is asked for; what is left of it is skipped. */
  body: AsyncIterable<Uint8Array>
}

const BLOCK = 512
/** A pax or GNU header, which holds a name of at most 4096 bytes and a few numbers. */
const MAX_EXTENSION = 64 * 1024

/** Yields the entries in order. Throws if the archive is damaged or ends too early. */
export async function* readTar(source: AsyncIterable<Uint8Array>): AsyncGenerator<TarEntry, void, undefined> {
  const bytes = new Bytes(source)
  try {
    let given: { name?: string; size?: number } = {}
    for (;;) {
      const header = await bytes.take(BLOCK)
      if (header.every(byte => byte === 0)) return
      requireChecksum(header)
      const type = String.fromCharCode(header[156] ?? 0)
      const size = given.size ?? number(header.subarray(124, 136))
      if ('xgLK'.includes(type)) {
        const extension = await takeExtension(bytes, number(header.subarray(124, 136)))
        if (type === 'x') given = { ...given, ...paxFields(extension) }
        else if (type === 'L') given = { ...given, name: text(extension) }
        continue
      }
      const kind = KINDS[type] ?? 'other'
      const body = new Body(bytes, kind === 'directory' ? 0 : size)
      yield { name: given.name ?? nameIn(header), kind, size: body.left, body }
      await body.skip()
      given = {}
    }
  } finally {
    await bytes.close()
  }
}

const KINDS: Readonly<Record<string, 'file' | 'directory'>> = { '0': 'file', '\0': 'file', '7': 'file', '5': 'directory' }

const damaged = (why: string) => new Error(`the archive ${why}`)

/** The rest of an entry, as far as it has not been read. */
class Body implements AsyncIterable<Uint8Array> {
  left: number
  #padding: number
  readonly #bytes: Bytes

  constructor(bytes: Bytes, size: number) {
    this.#bytes = bytes
    this.left = size
    this.#padding = (BLOCK - (size % BLOCK)) % BLOCK
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    while (this.left > 0) {
      const piece = await this.#bytes.some(this.left)
      this.left -= piece.length
      yield piece
    }
  }

  async skip(): Promise<void> {
    for (this.left += this.#padding, this.#padding = 0; this.left > 0; ) this.left -= (await this.#bytes.some(this.left)).length
  }
}

/** The bytes of a stream, in pieces of a wanted size. */
class Bytes {
  readonly #source: AsyncIterator<Uint8Array>
  #rest: Uint8Array = new Uint8Array()

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  /** At least one byte and at most `most`. */
  async some(most: number): Promise<Uint8Array> {
    while (this.#rest.length === 0) {
      const { done, value } = await this.#source.next()
      if (done) throw damaged('ends too early')
      this.#rest = value
    }
    const piece = this.#rest.subarray(0, most)
    this.#rest = this.#rest.subarray(piece.length)
    return piece
  }

  async take(count: number): Promise<Uint8Array> {
    const taken = new Uint8Array(count)
    for (let at = 0; at < count; ) {
      const piece = await this.some(count - at)
      taken.set(piece, at)
      at += piece.length
    }
    return taken
  }

  async close(): Promise<void> {
    await this.#source.return?.()
  }
}

async function takeExtension(bytes: Bytes, size: number): Promise<Uint8Array> {
  if (size > MAX_EXTENSION) throw damaged('has a header that is too long')
  const extension = await bytes.take(size)
  await bytes.take((BLOCK - (size % BLOCK)) % BLOCK)
  return extension
}

/** Each record is `LENGTH key=value\n`, where LENGTH counts the bytes of the whole record. */
function paxFields(header: Uint8Array): { name?: string; size?: number } {
  const fields: { name?: string; size?: number } = {}
  for (let rest = header; rest.length > 0; ) {
    const length = Number(/^\d{1,9}(?= )/.exec(new TextDecoder('latin1').decode(rest.subarray(0, 10)))?.[0] ?? 0)
    const record = rest.subarray(0, length)
    const [, key, value] = /^\d+ ([^=]+)=(.*)\n$/s.exec(text(record)) ?? []
    if (record.length !== length || key === undefined || value === undefined) throw damaged('has a damaged header')
    if (key === 'path') fields.name = value
    if (key === 'size') fields.size = sizeFrom(value, 10)
    rest = rest.subarray(length)
  }
  return fields
}

function requireChecksum(header: Uint8Array): void {
  const sum = header.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 32 : byte), 0)
  if (number(header.subarray(148, 156)) !== sum) throw damaged('is damaged')
}

function nameIn(header: Uint8Array): string {
  const isUstar = text(header.subarray(257, 262)) === 'ustar' && header[262] === 0
  const prefix = isUstar ? text(header.subarray(345, 500)) : ''
  const name = text(header.subarray(0, 100))
  return prefix === '' ? name : `${prefix}/${name}`
}

/** Octal digits. The form for sizes above 8 GiB is refused. */
const number = (field: Uint8Array) => sizeFrom(text(field).trim(), 8)

function sizeFrom(digits: string, base: 8 | 10): number {
  if (!(base === 8 ? /^[0-7]{0,11}$/ : /^\d{1,15}$/).test(digits)) throw damaged('has a damaged header')
  return digits === '' ? 0 : Number.parseInt(digits, base)
}

/** Up to the first NUL. SECURITY: a name that is not UTF-8 is refused, as two such names may become equal. */
function text(field: Uint8Array): string {
  const end = field.indexOf(0)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(end < 0 ? field : field.subarray(0, end))
  } catch (cause) {
    throw new Error('the archive has a name that is not UTF-8', { cause })
  }
}
