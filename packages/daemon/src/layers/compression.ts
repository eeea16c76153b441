// How the bytes of a layer are compressed, told by how they begin: what a manifest says about it is not always true.
import { open } from 'node:fs/promises'
import type { Compression } from './layer-tar.ts'

export function compressionOf(start: Uint8Array): Compression {
  if (start[0] === 0x1f && start[1] === 0x8b) return 'gzip'
  const isZstd = start[0] === 0x28 && start[1] === 0xb5 && start[2] === 0x2f && start[3] === 0xfd
  // What zstd skips may stand in front of the first frame.
  const isSkippable =
    start[0] !== undefined && (start[0] & 0xf0) === 0x50 && start[1] === 0x2a && start[2] === 0x4d && start[3] === 0x18
  return isZstd || isSkippable ? 'zstd' : 'none'
}

export async function fileCompression(path: string): Promise<Compression> {
  await using file = await open(path)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0)
  return compressionOf(buffer.subarray(0, bytesRead))
}
