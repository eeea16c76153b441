// What a tar has in it, told from its headers while it passes: for layers that nobody unpacks as they come.
import { SandglassError } from '@sandglass/contract/tables'
import type { Unpacked } from './layer-folders.ts'

const BLOCK = 512
/** SECURITY: an extended header is held in memory, here and by whoever reads the layer later. */
const MAX_EXTENDED = 1024 * 1024
/** What a name takes of a disk, as `runner unpack` counts it. */
const ENTRY_BYTES = 4096

export class TarCount {
  readonly #image: string
  #header = Buffer.alloc(0)
  /** Bytes of content and padding to pass over. */
  #skip = 0
  /** An extended header that is still coming, and where the padding after it begins. */
  #extended: { kind: string; size: number; pieces: Buffer[] } | null = null
  /** Blocks of the map of a sparse file come before its content, of which this is the length. */
  #afterMap: number | null = null
  #pax = new Map<string, string>()
  #ended = false

  constructor(image: string) {
    this.#image = image
  }

  /** What the entries that begin in this piece come to. */
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

  /** Some tars lack the end mark; none ends in the middle of something. */
  finish(): void {
    if (!this.#ended && (this.#skip > 0 || this.#header.length > 0 || this.#afterMap !== null))
      throw this.#invalid('it breaks off')
  }

  /** The bytes of the file that begins with this block, or null where none does. */
  #begin(block: Buffer): number | null {
    if (this.#afterMap !== null) {
      if (block[504] !== 0) return null
      this.#pass(this.#afterMap)
      this.#afterMap = null
      return null
    }
    if (block.every(byte => byte === 0)) {
      this.#ended = true
      return null
    }
    if (!hasItsSum(block)) throw this.#invalid('it has no header where one has to be')
    const kind = String.fromCharCode(block[156] ?? 0)
    const said = this.#number(block.subarray(124, 136))
    if ('xgLK'.includes(kind)) {
      if (said > MAX_EXTENDED) throw this.#invalid('it has an extended header that is too large')
      this.#extended = { kind, size: said, pieces: [] }
      this.#pass(said)
      return null
    }
    const pax = this.#pax
    this.#pax = new Map()
    // Nothing follows links, devices and folders, whatever they say.
    if ('123456'.includes(kind)) return 0
    const size = pax.has('size') ? this.#decimal(pax.get('size')) : said
    if (kind === 'S' && block[482] !== 0) this.#afterMap = size
    else this.#pass(size)
    const shown = pax.get('GNU.sparse.realsize') ?? pax.get('GNU.sparse.size')
    if (kind === 'S') return this.#number(block.subarray(483, 495))
    return shown === undefined ? size : this.#decimal(shown)
  }

  #pass(size: number): void {
    this.#skip = Math.ceil(size / BLOCK) * BLOCK
    if (this.#skip === 0) this.#endExtended()
  }

  #endExtended(): void {
    const ended = this.#extended
    this.#extended = null
    if (ended?.kind === 'x') this.#pax = records(Buffer.concat(ended.pieces).subarray(0, ended.size))
  }

  #number(field: Buffer): number {
    // Base 256 begins with its highest bit set; what has more than six bytes is no size.
    if (((field[0] ?? 0) & 0x80) !== 0) {
      if ((field[0] ?? 0) !== 0x80 || field.subarray(1, -6).some(byte => byte !== 0))
        throw this.#invalid('it has a size that is none')
      return field.readUIntBE(field.length - 6, 6)
    }
    const text = field.toString('latin1').replace(/\0.*$/s, '').trim()
    if (!/^[0-7]*$/.test(text)) throw this.#invalid('it has a size that is none')
    return Number.parseInt(text || '0', 8)
  }

  #decimal(text = ''): number {
    if (!/^[0-9]{1,15}$/.test(text)) throw this.#invalid('it has a size that is none')
    return Number(text)
  }

  #invalid(what: string): SandglassError {
    return new SandglassError('IMAGE_INVALID', { image: this.#image, issue: `a layer is not a whole tar archive: ${what}` })
  }
}

/** The sum of all bytes, those of the sum itself taken for spaces. */
function hasItsSum(block: Buffer): boolean {
  let sum = 8 * 32
  for (const [i, byte] of block.entries()) if (i < 148 || i >= 156) sum += byte
  return sum === Number.parseInt(block.toString('latin1', 148, 156).replace(/\0.*$/s, '').trim(), 8)
}

/** Lines of `length key=value`, the length being that of the whole line. */
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
