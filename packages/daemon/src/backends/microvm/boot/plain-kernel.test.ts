import { execFileSync } from 'node:child_process'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { plainKernel } from './plain-kernel.ts'

/** A kernel image: one sector of boot code, four of setup code, then the compressed payload. */
function bootable(payload: Buffer): Buffer {
  const image = Buffer.alloc(5 * 512 + 100)
  image.writeUInt8(4, 0x1f1)
  image.write('HdrS', 0x202, 'latin1')
  image.writeUInt16LE(0x20f, 0x206)
  image.writeUInt32LE(100, 0x248)
  image.writeUInt32LE(payload.length, 0x24c)
  return Buffer.concat([image, payload, Buffer.alloc(32)])
}

/** An ELF file with one segment of notes; the last note has this type. */
function kernel(type: number, owner = 'Xen\0'): Buffer {
  const notes = Buffer.concat([note(3, 'GNU\0', 5), note(type, owner, 8)])
  const elf = Buffer.alloc(0x40 + 0x38)
  elf.write('\x7fELF', 0, 'latin1')
  elf.writeBigUInt64LE(0x40n, 0x20)
  elf.writeUInt16LE(0x38, 0x36)
  elf.writeUInt16LE(1, 0x38)
  elf.writeUInt32LE(4, 0x40)
  elf.writeBigUInt64LE(BigInt(elf.length), 0x48)
  elf.writeBigUInt64LE(BigInt(notes.length), 0x60)
  return Buffer.concat([elf, notes, Buffer.from('the kernel '.repeat(400))])
}

function note(type: number, owner: string, bytes: number): Buffer {
  const head = Buffer.alloc(12)
  for (const [i, value] of [owner.length, bytes, type].entries()) head.writeUInt32LE(value, 4 * i)
  return Buffer.concat([head, Buffer.from(owner), Buffer.alloc(Math.ceil(bytes / 4) * 4)])
}

const number = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
const sized = (packed: Buffer, size: number) => Buffer.concat([packed, number(size)])

/** A frame of two blocks. The first has an overlapping copy and lengths that do not fit into a token. */
function lz4(content: Buffer): Buffer {
  const tail = Buffer.from('the kernel '.repeat(400))
  const [head, period] = [content.subarray(0, content.length - tail.length), 11]
  const plain = Buffer.concat([head, tail.subarray(0, period)])
  const first = piece(plain, period, 2000)
  const rest = piece(tail.subarray(period + 2000), 0, 0)
  return Buffer.concat([Buffer.from('02214c18', 'hex'), number(first.length), first, number(rest.length), rest])
}

function piece(plain: Buffer, distance: number, copied: number): Buffer {
  const more = (length: number) => (length < 15 ? [] : [...Array(Math.floor((length - 15) / 255)).fill(255), (length - 15) % 255])
  const low = copied === 0 ? 0 : copied - 4
  const token = (Math.min(plain.length, 15) << 4) | Math.min(low, 15)
  const copy = copied === 0 ? [] : [distance & 255, distance >> 8, ...more(low)]
  return Buffer.concat([Buffer.from([token, ...more(plain.length)]), plain, Buffer.from(copy)])
}

const ENTRY = 18
const whole = kernel(ENTRY)
const xz = (content: Buffer) => execFileSync('xz', ['-c', '--check=crc32'], { input: content })

describe('the uncompressed kernel', () => {
  it.each([
    ['gzip', gzipSync(whole)],
    ['zstd', sized(zstdCompressSync(whole), whole.length)],
    ['xz', sized(xz(whole), whole.length)],
    ['lz4', sized(lz4(whole), whole.length)],
  ])('is extracted from an image with %s compression', async (_, payload) => {
    expect(await plainKernel(bootable(payload))).toEqual(whole)
  })

  it.each([
    ['is too short', Buffer.from('MZ')],
    ['is not a kernel', Buffer.alloc(4096)],
    ['is shorter than its payload', bootable(gzipSync(whole)).subarray(0, 2700)],
    ['has another compression', bootable(Buffer.from('BZh9 and so on'))],
    ['has no ELF file', bootable(gzipSync(Buffer.from('text')))],
    ['has no PVH entry point', bootable(gzipSync(kernel(ENTRY - 1)))],
    ['has the note of another owner', bootable(gzipSync(kernel(ENTRY, 'Zen\0')))],
  ])('is absent in an image that %s', async (_, image) => {
    expect(await plainKernel(image)).toBeNull()
  })

  const nothing = Buffer.concat([Buffer.from('02214c18', 'hex'), number(5), Buffer.from([0x10, 65, 9, 0, 0])])
  const bomb = Buffer.concat([Buffer.from([0x1f, 65, 1, 0]), Buffer.alloc(40_000, 255), Buffer.from([0, 0])])
  it.each([
    ['is damaged', bootable(gzipSync(whole).fill(7, 40, 60)), /./],
    ['declares a wrong size', bootable(sized(lz4(whole), whole.length + 1)), /bytes instead of/],
    ['declares a wrong size of zstd data', bootable(sized(zstdCompressSync(whole), whole.length + 1)), /bytes instead of/],
    ['declares an enormous size', bootable(sized(lz4(whole), 0xffff_ffff)), /4294967295 bytes/],
    ['has an invalid offset', bootable(sized(nothing, 5)), /invalid LZ4 offset/],
    [
      'has a block that is too large',
      bootable(sized(Buffer.concat([nothing.subarray(0, 4), number(bomb.length), bomb]), 10_200_020)),
      /invalid LZ4 offset/,
    ],
    ['has a truncated ELF file', bootable(gzipSync(whole.subarray(0, 0x50))), /out of range|outside/],
  ])('is an error for an image that %s', async (_, image, why) => {
    await expect(plainKernel(image)).rejects.toThrow(why)
  })
})
