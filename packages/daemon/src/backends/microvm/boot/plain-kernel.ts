// Extracts the uncompressed kernel (vmlinux) from a distribution's compressed kernel image. An emulated processor takes half a second to decompress
// it at each boot; the host does that once, and QEMU loads the result directly.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { gunzip, zstdDecompress } from 'node:zlib'
import { isLz4, unpackLz4 } from './lz4.ts'

const MAX_BYTES = 512 * 1024 * 1024
const XZ_MS = 60_000
/** Limits: a real kernel has five program headers and half a kilobyte of notes. */
const [MAX_HEADERS, MAX_NOTES] = [64, 64 * 1024]
/** Offsets of fields in the x64 boot protocol. */
const SETUP = { sectors: 0x1f1, magic: 0x202, version: 0x206, payloadOffset: 0x248, payloadLength: 0x24c }
const PAYLOAD_SINCE = 0x0208
const SECTOR = 512
/** ELF: the segment type PT_NOTE, and the note with the PVH entry point, at which QEMU enters the kernel. */
const NOTES = 4
const ENTRY_NOTE = { owner: 'Xen\0', type: 18 }

/**
 * Null for a kernel that is not for x64, has an unknown compression or no PVH entry point: it decompresses itself at boot. Throws if decompressing
 * fails.
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
  // All formats but gzip are followed by the decompressed size.
  const [data, size] = [payload.subarray(0, -4), payload.readUInt32LE(payload.length - 4)]
  const decompress = isLz4(data) ? unpackLz4 : DECOMPRESSORS[magic]
  if (decompress === undefined) return null
  if (size > MAX_BYTES) throw new Error(`the kernel declares ${size} bytes`)
  const kernel = await decompress(data, size)
  if (kernel.length !== size) throw new Error(`the kernel has ${kernel.length} bytes instead of ${size}`)
  return kernel
}

/** Keyed by the magic number of the format. */
const DECOMPRESSORS: Readonly<Record<string, (data: Buffer, size: number) => Promise<Buffer>>> = {
  '28b52ffd': async (data, size) => await promisify(zstdDecompress)(data, { maxOutputLength: size }),
  fd377a58: unpackXz,
}

async function unpackXz(data: Buffer, size: number): Promise<Buffer> {
  return await new Promise((resolve, reject) => {
    const options = { encoding: 'buffer', maxBuffer: size, timeout: XZ_MS } as const
    const child = execFile('xz', ['-dc'], options, (error, output) => (error === null ? resolve(output) : reject(error)))
    child.stdin?.on('error', () => undefined) // the exit status is reported instead
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

/** A note has the lengths of its name and content, a type, the name and the content, each padded to a multiple of four. */
function hasEntryNote(notes: Buffer): boolean {
  for (let at = 0; at + 12 <= notes.length; ) {
    const [owner, content, type] = [notes.readUInt32LE(at), notes.readUInt32LE(at + 4), notes.readUInt32LE(at + 8)]
    if (type === ENTRY_NOTE.type && notes.toString('latin1', at + 12, at + 12 + owner) === ENTRY_NOTE.owner) return true
    at += 12 + Math.ceil(owner / 4) * 4 + Math.ceil(content / 4) * 4
  }
  return false
}
