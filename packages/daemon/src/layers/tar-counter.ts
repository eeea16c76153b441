// Counts the entries and bytes of a tar stream, for layers that no backend unpacks while they arrive.
// SECURITY: not tar-stream, which reports the stored size of old GNU sparse files: they could exceed the image's size limit once unpacked.
import { SandglassError } from '@sandglass/contract/tables'
import type { Unpacked } from './layer-folders.ts'

const BLOCK = 512
/** SECURITY: an extended header is held in memory, here and by later readers of the layer. */
const MAX_EXTENDED = 1024 * 1024
/** Disk space counted per entry, the same as in `launcher unpack`. */
const ENTRY_BYTES = 4096

export class TarCounter {
  readonly #image: string
  #header = Buffer.alloc(0)
  /** Bytes of content and padding to skip. */
  #skip = 0
  /** The extended header being read; `size` is its length without padding. */
  #extended: { kind: string; size: number; pieces: Buffer[] } | null = null
  /** While reading the sparse map of a file: the length of the content after it. */
  #afterMap: number | null = null
  #pax = new Map<string, string>()
  #ended = false

  constructor(image: string) {
    this.#image = image
  }

  /** The sum of the entries that begin in this piece. */
  add(piece: Buffer): Unpacked {
    const sum = { entries: 0, bytes: 0 }
    for (let at = 0; at < piece.length && !this.#ended; ) {
      if (this.#skip > 0) {
        const passed = Math.min(this.#skip, piece.length - at)
        this.#extended?.pieces.push(piece.subarray(at, at + passed))
        this.#skip -= passed
        at += passed
        if (this.#skip === 0) this.#endExtended()
        continue
      }
      const part = piece.subarray(at, at + BLOCK - this.#header.length)
      at += part.length
      this.#header = Buffer.concat([this.#header, part])
      if (this.#header.length < BLOCK) continue
      const block = this.#header
      this.#header = Buffer.alloc(0)
      const bytes = this.#begin(block)
      if (bytes === null) continue
      sum.entries++
      sum.bytes += bytes + ENTRY_BYTES
    }
    return sum
  }

  /** Throws if the tar ends inside an entry. A missing end marker is accepted. */
  finish(): void {
    if (!this.#ended && (this.#skip > 0 || this.#header.length > 0 || this.#afterMap !== null))
      throw this.#invalid('unexpected end')
  }

  /** The size of the entry that begins with this block; null if the block begins none. */
  #begin(block: Buffer): number | null {
    if (this.#afterMap !== null) {
      if (block[504] !== 0) return null
      this.#skipContent(this.#afterMap)
      this.#afterMap = null
      return null
    }
    if (block.every(byte => byte === 0)) {
      this.#ended = true
      return null
    }
    if (!hasValidChecksum(block)) throw this.#invalid('invalid header checksum')
    const kind = String.fromCharCode(block[156] ?? 0)
    const headerSize = this.#number(block.subarray(124, 136))
    if ('xgLK'.includes(kind)) {
      if (headerSize > MAX_EXTENDED) throw this.#invalid('extended header too large')
      this.#extended = { kind, size: headerSize, pieces: [] }
      this.#skipContent(headerSize)
      return null
    }
    const pax = this.#pax
    this.#pax = new Map()
    // Links, devices and folders have no content, whatever their size field says.
    if ('123456'.includes(kind)) return 0
    const size = pax.has('size') ? this.#decimal(pax.get('size')) : headerSize
    if (kind === 'S' && block[482] !== 0) this.#afterMap = size
    else this.#skipContent(size)
    const realSize = pax.get('GNU.sparse.realsize') ?? pax.get('GNU.sparse.size')
    if (kind === 'S') return this.#number(block.subarray(483, 495))
    return realSize === undefined ? size : this.#decimal(realSize)
  }

  #skipContent(size: number): void {
    this.#skip = Math.ceil(size / BLOCK) * BLOCK
    if (this.#skip === 0) this.#endExtended()
  }

  #endExtended(): void {
    const ended = this.#extended
    this.#extended = null
    if (ended?.kind === 'x') this.#pax = records(Buffer.concat(ended.pieces).subarray(0, ended.size))
  }

  #number(field: Buffer): number {
    // Base 256 has the highest bit of the first byte set. More than six significant bytes cannot be a size.
    if (((field[0] ?? 0) & 0x80) !== 0) {
      if ((field[0] ?? 0) !== 0x80 || field.subarray(1, -6).some(byte => byte !== 0)) throw this.#invalid('invalid size field')
      return field.readUIntBE(field.length - 6, 6)
    }
    const text = field.toString('latin1').replace(/\0.*$/s, '').trim()
    if (!/^[0-7]*$/.test(text)) throw this.#invalid('invalid size field')
    return Number.parseInt(text || '0', 8)
  }

  #decimal(text = ''): number {
    if (!/^[0-9]{1,15}$/.test(text)) throw this.#invalid('invalid size field')
    return Number(text)
  }

  #invalid(what: string): SandglassError {
    return new SandglassError('IMAGE_INVALID', { image: this.#image, issue: `a layer is not a valid tar: ${what}` })
  }
}

/** The checksum is the sum of all header bytes, with its own field counted as spaces. */
function hasValidChecksum(block: Buffer): boolean {
  let sum = 8 * 32
  for (const [i, byte] of block.entries()) if (i < 148 || i >= 156) sum += byte
  return sum === Number.parseInt(block.toString('latin1', 148, 156).replace(/\0.*$/s, '').trim(), 8)
}

/** Parses pax records: lines of `length key=value`, where length counts the whole line. */
function records(text: Buffer): Map<string, string> {
  const found = new Map<string, string>()
  for (let at = 0; at < text.length; ) {
    const space = text.indexOf(' ', at)
    const length = Number(text.toString('latin1', at, space))
    if (space < 0 || !Number.isInteger(length) || length <= space - at) break
    const line = text.toString('latin1', space + 1, at + length - 1)
    const equals = line.indexOf('=')
    if (equals > 0) found.set(line.slice(0, equals), line.slice(equals + 1))
    at += length
  }
  return found
}
