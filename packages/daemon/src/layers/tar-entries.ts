// Reads the entries of an untrusted tar.
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/contract/tables'
import { extract, type Header } from 'tar-stream'

export interface TarSource {
  /** Name of the image, for error messages. */
  readonly image: string
  /** Prefix of the message if the tar is invalid. */
  readonly issue: string
}

/**
 * Calls `onEntry` for each entry in order and skips content that it does not read. Ends with the tar or the first error.
 * SECURITY: the bytes may be anything. An event-based reader that misses an error listener on one entry would crash the daemon.
 */
export async function readEntries(
  tar: Readable,
  source: TarSource,
  signal: AbortSignal,
  onEntry: (header: Header, content: AsyncIterable<Buffer>) => Promise<void>,
): Promise<void> {
  const archive = extract()
  const readAll = async () => {
    for await (const entry of archive) {
      await onEntry(entry.header, entry as AsyncIterable<Buffer>)
      entry.resume()
    }
  }
  const [sent, read] = await Promise.allSettled([pipeline(tar, archive, { signal }), readAll()])
  signal.throwIfAborted()
  // A failure of one destroys the other, whose error then only says that it was destroyed.
  if (read.status === 'rejected' && !isPrematureClose(read.reason)) throw failure(source, read.reason)
  if (sent.status === 'rejected') throw failure(source, sent.reason)
}

const isPrematureClose = (error: unknown) => (error as NodeJS.ErrnoException).code === 'ERR_STREAM_PREMATURE_CLOSE'

/** Errors of tar-stream (without a code) and of decompressors mean an invalid archive; others are passed on. */
function failure({ image, issue }: TarSource, error: unknown): unknown {
  if (error instanceof SandglassError) return error
  const { code, message } = error as NodeJS.ErrnoException
  if (code !== undefined && !/^(Z_|ZSTD_)/.test(code)) return error
  return new SandglassError('IMAGE_INVALID', { image, issue: `${issue}: ${message}` }, { cause: error })
}
