import { SandglassError } from '@sandglass/sdk'
import { type ArchiveNotes, tarEntries } from './unpack-entries.ts'

/** Sends the bytes of a tar on as they come, and tells what it says of itself. One that cannot be read here goes on all the same. */
export async function passOn(
  source: AsyncIterable<Uint8Array>,
  send: (piece: Uint8Array) => Promise<void>,
  notes: ArchiveNotes,
): Promise<void> {
  const tar = sending(source, send)
  try {
    for await (const _ of tarEntries(tar, notes));
  } catch (error) {
    if (!(error instanceof SandglassError && error.is('ARCHIVE_UNSAFE'))) throw error
  }
  for await (const _ of tar);
}

async function* sending(
  source: AsyncIterable<Uint8Array>,
  send: (piece: Uint8Array) => Promise<void>,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of source) {
    await send(piece)
    yield piece
  }
}
