// Reads a tar. SECURITY: the bytes come out of a sandbox; every length is bounded before anything is allocated, and nothing here
// decides where an entry goes.
import { SandglassError } from '@sandglass/sdk'
import { BLOCK, checksum, padding } from './tar-header.ts'

export type ReadEntry = {
  name: string
  /** One character, as in the header. */
  typeFlag: string
  size: number
  mode: number
  modifiedAt: number
  target: string
  body: AsyncIterable<Uint8Array>
}

/** Names and pax records longer than this are refused. A name of an archive has up to 16 KiB, and so has what a link leads to. */
const MAX_META = 256 * 1024

/** What an archive says of what is not in it, as the sandbox has the names. */
export type ArchiveNotes = {
  /** Gets the kind and name of what is neither a file, a folder nor a link. */
  onLeftOut?: (what: string) => void
  /** Gets the name of what could not be read, and the reason. */
  onUnreadable?: (what: string) => void
}

export async function* tarEntries(
  source: AsyncIterable<Uint8Array>,
  notes: ArchiveNotes = {},
): AsyncGenerator<ReadEntry, void, undefined> {
  const input = new ByteReader(source)
  let overrides: Record<string, string> = {}
  for (;;) {
    const header = await input.exactly(BLOCK)
    if (header.every(byte => byte === 0)) return input.drain()
    if (octal(header, 148, 8) !== checksum(header)) throw unsafe('the archive', 'is damaged')
    const typeFlag = String.fromCharCode(header[156] || 0x30)
    const size = overrides.size === undefined ? number(header, 124, 12) : decimal(overrides.size)
    if (typeFlag === 'x' || typeFlag === 'g' || typeFlag === 'L' || typeFlag === 'K') {
      if (size > MAX_META) throw unsafe('the archive', 'has a header that is too long')
      const meta = await input.exactly(size)
      await input.exactly(padding(size))
      if (typeFlag === 'x') overrides = { ...overrides, ...paxRecords(meta) }
      else if (typeFlag === 'g') tellNotes(meta, notes)
      else if (typeFlag === 'L') overrides.path = cString(meta)
      else if (typeFlag === 'K') overrides.linkpath = cString(meta)
      continue
    }
    const body = input.part(size)
    yield {
      name: overrides.path ?? ustarName(header),
      typeFlag,
      size,
      mode: octal(header, 100, 8) & 0o777,
      modifiedAt: Math.min(number(header, 136, 12) * 1000, 8.64e15),
      target: overrides.linkpath ?? cString(header.subarray(157, 257)),
      body,
    }
    overrides = {}
    for await (const _ of body); // what the reader left of it
    await input.exactly(padding(size))
  }
}

/** The runner tells in a comment of its own, which other readers pass over, what is missing. */
function tellNotes(meta: Uint8Array, { onLeftOut, onUnreadable }: ArchiveNotes): void {
  const [, kind, what = ''] = /^\d+ comment=(left out|unreadable): (.*)\n$/s.exec(new TextDecoder().decode(meta)) ?? []
  if (kind === 'left out') onLeftOut?.(what)
  else if (kind === 'unreadable') onUnreadable?.(what)
}

function ustarName(header: Uint8Array): string {
  const name = cString(header.subarray(0, 100))
  const isUstar = cString(header.subarray(257, 262)) === 'ustar'
  const prefix = isUstar && header[262] === 0 ? cString(header.subarray(345, 500)) : ''
  return prefix ? `${prefix}/${name}` : name
}

function paxRecords(meta: Uint8Array): Record<string, string> {
  const records: Record<string, string> = {}
  for (let at = 0; at < meta.length; ) {
    const space = meta.indexOf(0x20, at)
    const length = space < 0 ? Number.NaN : decimal(utf8(meta.subarray(at, space)))
    if (!(length > space - at && at + length <= meta.length)) throw unsafe('the archive', 'has a damaged header')
    const record = utf8(meta.subarray(space + 1, at + length - 1))
    const equals = record.indexOf('=')
    const key = record.slice(0, equals)
    if (key.startsWith('GNU.sparse')) throw unsafe('the archive', 'has a sparse file, which is not supported')
    if (key === 'path' || key === 'linkpath' || key === 'size') records[key] = record.slice(equals + 1)
    at += length
  }
  return records
}

/** Octal text, or GNU's binary form for large numbers. */
function number(header: Uint8Array, at: number, width: number): number {
  if (((header[at] ?? 0) & 0x80) === 0) return octal(header, at, width)
  let value = (header[at] ?? 0) & 0x7f
  for (const byte of header.subarray(at + 1, at + width)) value = value * 256 + byte
  if (!Number.isSafeInteger(value)) throw unsafe('the archive', 'has an impossible size')
  return value
}

function octal(header: Uint8Array, at: number, width: number): number {
  const text = cString(header.subarray(at, at + width)).trim()
  if (!/^[0-7]*$/.test(text)) throw unsafe('the archive', 'is damaged')
  return Number.parseInt(text || '0', 8)
}

function decimal(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw unsafe('the archive', 'has an impossible size')
  return Number(text)
}

function cString(bytes: Uint8Array): string {
  const end = bytes.indexOf(0)
  return utf8(end < 0 ? bytes : bytes.subarray(0, end))
}

function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    throw new SandglassError(
      'ARCHIVE_UNSAFE',
      { entry: new TextDecoder().decode(bytes), issue: 'its name is not UTF-8' },
      { cause: error },
    )
  }
}

export const unsafe = (entry: string, issue: string) =>
  new SandglassError('ARCHIVE_UNSAFE', { entry, issue, next: '`sandglass cp --skip-unsafe` leaves such entries out' })

/** Hands out a stream of bytes in the lengths that are asked for. */
class ByteReader {
  #source: AsyncIterator<Uint8Array>
  #held: Uint8Array = new Uint8Array()

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  /** At most `limit` bytes, at least one. */
  async some(limit: number): Promise<Uint8Array> {
    while (this.#held.length === 0) {
      const { done, value } = await this.#source.next()
      if (done) throw unsafe('the archive', 'ends too early')
      this.#held = value
    }
    const piece = this.#held.subarray(0, limit)
    this.#held = this.#held.subarray(piece.length)
    return piece
  }

  /** Exactly `size` bytes, which the caller has bounded. */
  async exactly(size: number): Promise<Uint8Array> {
    const whole = new Uint8Array(size)
    for (let at = 0; at < size; ) {
      const piece = await this.some(size - at)
      whole.set(piece, at)
      at += piece.length
    }
    return whole
  }

  /** The next `size` bytes as they come. A second reader goes on where the first stopped. */
  part(size: number): AsyncIterable<Uint8Array> {
    let left = size
    const next = async (): Promise<IteratorResult<Uint8Array>> => {
      if (left === 0) return { done: true, value: undefined }
      const value = await this.some(left)
      left -= value.length
      return { done: false, value }
    }
    return { [Symbol.asyncIterator]: () => ({ next }) }
  }

  /** Reads what follows the end of the archive, so that the connection is free again. */
  async drain(): Promise<void> {
    for (let step = await this.#source.next(); !step.done; step = await this.#source.next());
  }
}
