// The kernel proper, which the file that a distribution installs holds compressed. An emulated processor takes half a second to unpack it; the
// host does that once, and QEMU loads the result where the kernel is to be.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { gunzip, zstdDecompress } from 'node:zlib'
import { isLz4, unpackLz4 } from './lz4.ts'

const MAX_BYTES = 512 * 1024 * 1024
const XZ_MS = 60_000
/** A kernel has five headers and half a kilobyte of notes. */
const [MAX_HEADERS, MAX_NOTES] = [64, 64 * 1024]
/** Of the boot protocol of x64. */
const SETUP = { sectors: 0x1f1, magic: 0x202, version: 0x206, payloadOffset: 0x248, payloadLength: 0x24c }
const PAYLOAD_SINCE = 0x0208
const SECTOR = 512
/** Of ELF: what has notes, and the note that says where a machine monitor may enter the kernel. */
const NOTES = 4
const ENTRY_NOTE = { owner: 'Xen\0', type: 18 }

/**
 * Null for a kernel that is no x64 one, is compressed otherwise, or cannot be entered this way: such a one unpacks itself, as ever. Throws for one
 * that cannot be unpacked here, now or at all.
 */
export async function plainKernel(image: Buffer): Promise<Buffer | null> {
  const payload = payloadOf(image)
  const kernel = payload === null ? null : await unpack(payload)
  return kernel !== null && hasEntry(kernel) ? kernel : null
}

function payloadOf(image: Buffer): Buffer | null {
  if (image.length < SETUP.payloadLength + 4 || image.toString('latin1', SETUP.magic, SETUP.magic + 4) !== 'HdrS') return null
  if (image.readUInt16LE(SETUP.version) < PAYLOAD_SINCE) return null
  const start = ((image.readUInt8(SETUP.sectors) || 4) + 1) * SECTOR + image.readUInt32LE(SETUP.payloadOffset)
  const end = start + image.readUInt32LE(SETUP.payloadLength)
  return end > start + 4 && end <= image.length ? image.subarray(start, end) : null
}

async function unpack(payload: Buffer): Promise<Buffer | null> {
  const bounds = { maxOutputLength: MAX_BYTES }
  const magic = payload.toString('hex', 0, 4)
  if (magic.startsWith('1f8b')) return await promisify(gunzip)(payload, bounds)
  // All but gzip, which has it itself, are followed by the size of what they hold.
  const [data, size] = [payload.subarray(0, -4), payload.readUInt32LE(payload.length - 4)]
  const way = isLz4(data) ? unpackLz4 : WAYS[magic]
  if (way === undefined) return null
  if (size > MAX_BYTES) throw new Error(`it is to have ${size} bytes`)
  const kernel = await way(data, size)
  if (kernel.length !== size) throw new Error(`it has ${kernel.length} bytes, not ${size}`)
  return kernel
}

/** By the first bytes of what they unpack. */
const WAYS: Readonly<Record<string, (data: Buffer, size: number) => Promise<Buffer>>> = {
  '28b52ffd': async (data, size) => await promisify(zstdDecompress)(data, { maxOutputLength: size }),
  fd377a58: unpackXz,
}

async function unpackXz(data: Buffer, size: number): Promise<Buffer> {
  return await new Promise((resolve, reject) => {
    const options = { encoding: 'buffer', maxBuffer: size, timeout: XZ_MS } as const
    const child = execFile('xz', ['-dc'], options, (error, output) => (error === null ? resolve(output) : reject(error)))
    child.stdin?.on('error', () => undefined) // its exit tells
    child.stdin?.end(data)
  })
}

function hasEntry(kernel: Buffer): boolean {
  if (kernel.length < 0x40 || kernel.toString('latin1', 0, 4) !== '\x7fELF') return false
  const [table, size, count] = [Number(kernel.readBigUInt64LE(0x20)), kernel.readUInt16LE(0x36), kernel.readUInt16LE(0x38)]
  const headers = Array.from({ length: Math.min(count, MAX_HEADERS) }, (_, i) =>
    kernel.subarray(table + i * size, table + (i + 1) * size),
  )
  return headers.some(header => header.readUInt32LE(0) === NOTES && hasEntryNote(segment(kernel, header)))
}

function segment(kernel: Buffer, header: Buffer): Buffer {
  const [offset, length] = [Number(header.readBigUInt64LE(0x08)), Number(header.readBigUInt64LE(0x20))]
  return kernel.subarray(offset, offset + Math.min(length, MAX_NOTES))
}

/** Each note is the lengths of its owner and of its content, a type, and these two, each filled up to a multiple of four. */
function hasEntryNote(notes: Buffer): boolean {
  for (let at = 0; at + 12 <= notes.length; ) {
    const [owner, content, type] = [notes.readUInt32LE(at), notes.readUInt32LE(at + 4), notes.readUInt32LE(at + 8)]
    if (type === ENTRY_NOTE.type && notes.toString('latin1', at + 12, at + 12 + owner) === ENTRY_NOTE.owner) return true
    at += 12 + Math.ceil(owner / 4) * 4 + Math.ceil(content / 4) * 4
  }
  return false
}
