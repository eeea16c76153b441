import type { FileHandle } from 'node:fs/promises'

const BATCH = 1024 * 1024

/** Writes a stream to a file in few large calls, whatever the size of its pieces. */
export async function writeAll(file: FileHandle, source: AsyncIterable<Uint8Array>): Promise<void> {
  let batch: Uint8Array[] = []
  let bytes = 0
  const flush = async () => {
    const pieces = batch
    batch = []
    bytes = 0
    await writeWhole(file, pieces)
  }
  for await (const piece of source) {
    batch.push(piece)
    bytes += piece.length
    if (bytes >= BATCH) await flush()
  }
  if (bytes > 0) await flush()
}

/** writev may take less than it was given; the rest follows piece by piece. */
async function writeWhole(file: FileHandle, pieces: readonly Uint8Array[]): Promise<void> {
  let { bytesWritten: skip } = await file.writev(pieces)
  for (const piece of pieces) {
    if (skip < piece.length) await file.writeFile(piece.subarray(skip))
    skip = Math.max(0, skip - piece.length)
  }
}
