// The entries of a tar that somebody else has made.
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/contract/tables'
import { extract, type Header } from 'tar-stream'

export interface TarSource {
  /** The image that it is of, for messages. */
  readonly image: string
  /** What is wrong with the image when the tar cannot be read. */
  readonly issue: string
}

/**
 * Gives every entry to `take`, one after the other, and passes over what it does not read. It ends with the tar, or with the first failure.
 * SECURITY: the bytes may be anything. One that reads entries by events instead has to listen for errors of each, or ends the daemon.
 */
export async function readEntries(
  tar: Readable,
  source: TarSource,
  signal: AbortSignal,
  take: (header: Header, content: AsyncIterable<Buffer>) => Promise<void>,
): Promise<void> {
  const archive = extract()
  const takeAll = async () => {
    for await (const entry of archive) {
      await take(entry.header, entry as AsyncIterable<Buffer>)
      entry.resume()
    }
  }
  const [sent, taken] = await Promise.allSettled([pipeline(tar, archive, { signal }), takeAll()])
  signal.throwIfAborted()
  // Whichever fails ends the other, which then only tells that it was ended.
  if (taken.status === 'rejected' && !isCutOff(taken.reason)) throw failure(source, taken.reason)
  if (sent.status === 'rejected') throw failure(source, sent.reason)
}

const isCutOff = (error: unknown) => (error as NodeJS.ErrnoException).code === 'ERR_STREAM_PREMATURE_CLOSE'

/** What the bytes are to blame for comes from tar-stream, without a code, or from what uncompresses them. */
function failure({ image, issue }: TarSource, error: unknown): unknown {
  if (error instanceof SandglassError) return error
  const { code, message } = error as NodeJS.ErrnoException
  if (code !== undefined && !/^(Z_|ZSTD_)/.test(code)) return error
  return new SandglassError('IMAGE_INVALID', { image, issue: `${issue}: ${message}` }, { cause: error })
}
