// Writes a download to a file.
import type { FileHandle } from 'node:fs/promises'

const BATCH = 1024 * 1024

/**
 * Writes a stream to a file in few large calls: one batch is written while the next one arrives. Takes ownership of the pieces: their
 * memory is freed at once.
 */
export async function saveTo(file: FileHandle, source: AsyncIterable<Uint8Array>): Promise<void> {
  let batch: Uint8Array[] = []
  let bytes = 0
  let saving = Promise.resolve()
  try {
    for await (const piece of source) {
      batch.push(piece)
      bytes += piece.length
      if (bytes < BATCH) continue
      await saving
      saving = writeWhole(file, batch)
      saving.catch(() => undefined) // thrown at the next await
      batch = []
      bytes = 0
    }
  } finally {
    await saving
  }
  if (bytes > 0) await writeWhole(file, batch)
}

/** writev may write less than all of it; the rest follows piece by piece. */
async function writeWhole(file: FileHandle, pieces: readonly Uint8Array[]): Promise<void> {
  let { bytesWritten: skip } = await file.writev(pieces)
  for (const piece of pieces) {
    if (skip < piece.length) await file.writeFile(piece.subarray(skip))
    skip = Math.max(0, skip - piece.length)
    free(piece)
  }
}

/** Frees the memory at once: for a large file, garbage collection would take as long as the transfer. */
function free({ buffer, length }: Uint8Array): void {
  if (
    buffer instanceof ArrayBuffer &&
    length === buffer.byteLength &&
    'transfer' in buffer &&
    typeof buffer.transfer === 'function'
  )
    buffer.transfer(0) // absent before Node 21
}
