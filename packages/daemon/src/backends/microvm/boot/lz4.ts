// Decompresses the legacy LZ4 frame format, which kernels use: a magic number, then blocks with their lengths. Node has no decoder for it.
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'

const MAGIC = Buffer.from('02214c18', 'hex')
const MIN_MATCH = 4
/** Maximum size of a decompressed block. */
const BLOCK_BYTES = 8 * 1024 * 1024

export const isLz4 = (data: Buffer): boolean => data.subarray(0, MAGIC.length).equals(MAGIC)

/** Yields to the event loop after each block. Throws if the data is invalid or does not have this size. */
export async function unpackLz4(data: Buffer, size: number): Promise<Buffer> {
  const output = Buffer.alloc(size)
  let [at, end] = [MAGIC.length, 0]
  while (at < data.length) {
    const length = data.readUInt32LE(at)
    at += 4
    end = unpackBlock(data.subarray(at, at + length), output.subarray(0, end + BLOCK_BYTES), end)
    at += length
    await yieldToEventLoop()
  }
  if (at !== data.length || end !== size) throw new Error(`LZ4 data has ${end} bytes instead of ${size}`)
  return output
}

/** Appends a decompressed block and returns the new end. A block is a sequence of literals, each followed by a copy of earlier output. */
function unpackBlock(block: Buffer, output: Buffer, begin: number): number {
  let [at, end] = [0, begin]
  // After a length of 15, more bytes are added up to the first that is not 255.
  const length = (first: number) => {
    let sum = first
    for (let more = first === 15 ? 255 : 0; more === 255; sum += more) more = block.readUInt8(at++)
    return sum
  }
  while (at < block.length) {
    const token = block.readUInt8(at++)
    const literals = length(token >> 4)
    if (at + literals > block.length || end + literals > output.length) throw new RangeError('truncated LZ4 data')
    block.copy(output, end, at, at + literals)
    at += literals
    end += literals
    if (at === block.length) break // the last sequence has no copy
    const distance = block.readUInt16LE(at)
    at += 2
    const copied = length(token & 15) + MIN_MATCH
    if (distance === 0 || distance > end || end + copied > output.length) throw new RangeError('invalid LZ4 offset')
    repeat(output, end, distance, copied)
    end += copied
  }
  return end
}

/** Copies from `distance` bytes before. An overlapping copy repeats the bytes. */
function repeat(output: Buffer, at: number, distance: number, count: number): void {
  if (distance >= count) output.copyWithin(at, at - distance, at - distance + count)
  else for (let i = at; i < at + count; i++) output[i] = output[i - distance] as number
}
