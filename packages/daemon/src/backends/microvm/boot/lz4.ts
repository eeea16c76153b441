// LZ4 as kernels are compressed with it: the old format of frames, a mark and then blocks, each with its length. Node has no decoder for it.
import { setImmediate as turn } from 'node:timers/promises'

const MARK = Buffer.from('02214c18', 'hex')
const MIN_MATCH = 4
/** What a block of this format holds at most. */
const BLOCK_BYTES = 8 * 1024 * 1024

export const isLz4 = (data: Buffer): boolean => data.subarray(0, MARK.length).equals(MARK)

/** Gives others a turn after each block. Throws for what is no such frame, or is not of this size. */
export async function unpackLz4(data: Buffer, size: number): Promise<Buffer> {
  const output = Buffer.alloc(size)
  let [at, end] = [MARK.length, 0]
  while (at < data.length) {
    const length = data.readUInt32LE(at)
    at += 4
    end = unpackBlock(data.subarray(at, at + length), output.subarray(0, end + BLOCK_BYTES), end)
    at += length
    await turn()
  }
  if (at !== data.length || end !== size) throw new Error(`LZ4 data of ${end} bytes, not ${size}`)
  return output
}

/** Appends what a block holds, and gives the new end. A block is a row of pieces: bytes as they are, then a copy of earlier output. */
function unpackBlock(block: Buffer, output: Buffer, begin: number): number {
  let [at, end] = [0, begin]
  // A length of 15 goes on in bytes to be added, up to the first that is not 255.
  const length = (first: number) => {
    let sum = first
    for (let more = first === 15 ? 255 : 0; more === 255; sum += more) more = block.readUInt8(at++)
    return sum
  }
  while (at < block.length) {
    const token = block.readUInt8(at++)
    const plain = length(token >> 4)
    if (at + plain > block.length || end + plain > output.length) throw new RangeError('LZ4 data that is cut off')
    block.copy(output, end, at, at + plain)
    at += plain
    end += plain
    if (at === block.length) break // the last piece has no copy
    const distance = block.readUInt16LE(at)
    at += 2
    const copied = length(token & 15) + MIN_MATCH
    if (distance === 0 || distance > end || end + copied > output.length) throw new RangeError('LZ4 data that refers to nothing')
    repeat(output, end, distance, copied)
    end += copied
  }
  return end
}

/** Copies from `distance` before; what is copied may overlap itself, which repeats it. */
function repeat(output: Buffer, at: number, distance: number, count: number): void {
  if (distance >= count) output.copyWithin(at, at - distance, at - distance + count)
  else for (let i = at; i < at + count; i++) output[i] = output[i - distance] as number
}
