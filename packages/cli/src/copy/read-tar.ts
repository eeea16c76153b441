// Reads a tar. SECURITY: the bytes come out of a sandbox. tar-stream bounds every header before it buffers one; nothing here decides where
// an entry goes.
import { isUtf8 } from 'node:buffer'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/sdk'
import type { Extract, Header } from 'tar-stream'

export type TarEntry = {
  name: string
  /** null for a type that tar-stream does not know. */
  type: Header['type'] | null
  size: number
  mode: number
  modifiedAt: Date
  /** What a link points to; empty for other entries. */
  target: string
  isSparse: boolean
  /** The bytes of `name` and `target` are UTF-8. If not, other entries may have the same `name`. */
  isUtf8: boolean
  body: AsyncIterable<Uint8Array>
}

/** Receive what an archive says about entries that it does not contain, with their names in the sandbox. */
export type OmissionCallbacks = {
  /** Gets the kind and name of an entry that is neither a file, a folder nor a link. */
  onLeftOut?: (what: string) => void
  /** Gets the name of an unreadable entry, and the reason. */
  onUnreadable?: (what: string) => void
}

const BLOCK = 512
// Latin-1 keeps the bytes of a name, so that a name that is not UTF-8 can be recognized.
const OPTIONS = { filenameEncoding: 'latin1', allowUnknownFormat: true }

/** Yields the entries in order. The rest of a body that the caller has not read is skipped. */
export async function* readTar(
  source: AsyncIterable<Uint8Array>,
  callbacks: OmissionCallbacks = {},
): AsyncGenerator<TarEntry, void, undefined> {
  const { extract } = await import('tar-stream')
  const archive = extract(OPTIONS as object)
  decodePaxHeaders(archive, callbacks)
  const input = new TarBytes(source)
  const failure = pipeline(Readable.from(input), archive).then(
    () => undefined,
    error => input.failure ?? damaged(error),
  )
  let end = 0
  try {
    for await (const entry of archive) {
      const { header, offset } = entry
      // tar-stream takes a folder for empty, whatever its size field says.
      const size = header.type === 'directory' ? 0 : header.size
      end = offset + BLOCK + size
      yield { ...fieldsOf(header), size, body: bodyOf(entry as AsyncIterable<Uint8Array>, size, failure) }
      entry.resume()
    }
  } catch (error) {
    throw error instanceof SandglassError ? error : ((await failure) ?? damaged(error))
  } finally {
    archive.destroy()
    await failure
  }
  input.requireEndAfter(end)
}

/** Sends the bytes of a tar on unchanged, and reports the entries that it says were omitted. An unreadable tar is sent all the same. */
export async function relayTar(
  source: AsyncIterable<Uint8Array>,
  send: (piece: Uint8Array) => Promise<void>,
  callbacks: OmissionCallbacks,
): Promise<void> {
  const sent = sending(source, send)
  try {
    // Only `next` is passed on, so that a failed reader does not end the source.
    for await (const _ of readTar({ [Symbol.asyncIterator]: () => ({ next: () => sent.next() }) }, callbacks));
  } catch (error) {
    if (!(error instanceof SandglassError && error.is('ARCHIVE_UNSAFE'))) throw error
  }
  for await (const _ of sent);
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

/** The undocumented part of tar-stream that decodes pax and GNU long headers. The tests fail if another version changes it. */
type LongHeaderDecoder = { _header: { type: string }; _pax: Record<string, string>; _decodeLongHeader(body: Uint8Array): void }

/**
 * tar-stream does not hand out global pax headers, in which the runner reports omissions. It accepts malformed pax records, and replaces
 * bytes that are not UTF-8, after which different names may be equal.
 */
function decodePaxHeaders(archive: Extract, callbacks: OmissionCallbacks): void {
  const decoder = archive as Extract & LongHeaderDecoder
  const decode = decoder._decodeLongHeader.bind(decoder)
  decoder._decodeLongHeader = body => {
    if (decoder._header.type === 'pax-global-header') return reportOmission(body, callbacks)
    if (decoder._header.type === 'pax-header') decoder._pax = paxRecords(body)
    else decode(body)
  }
}

/** The runner reports an omission in a comment record, which other readers ignore. */
function reportOmission(header: Uint8Array, { onLeftOut, onUnreadable }: OmissionCallbacks): void {
  const [, kind, what = ''] = /^\d+ comment=(left out|unreadable): (.*)\n$/s.exec(new TextDecoder().decode(header)) ?? []
  if (kind === 'left out') onLeftOut?.(what)
  else if (kind === 'unreadable') onUnreadable?.(what)
}

/** Each record is `LENGTH key=value\n`, where LENGTH counts the whole record. Keys and values are Latin-1, as all names are. */
function paxRecords(header: Uint8Array): Record<string, string> {
  const records: [string, string][] = []
  for (let rest = Buffer.from(header).toString('latin1'); rest !== ''; ) {
    const length = Number(/^\d{1,9}(?= )/.exec(rest)?.[0] ?? 0)
    const [, key, value] = /^\d+ ([^=]+)=(.*)\n$/s.exec(rest.slice(0, length)) ?? []
    if (length > rest.length || key === undefined || value === undefined) throw unsafe('the archive', 'has a damaged header')
    records.push([key, value])
    rest = rest.slice(length)
  }
  return Object.fromEntries(records)
}

function fieldsOf({ name, type, mode, mtime, linkname, pax }: Header): Omit<TarEntry, 'size' | 'body'> {
  const [path, target] = [Buffer.from(name, 'latin1'), Buffer.from(linkname ?? '', 'latin1')]
  return {
    name: path.toString(),
    type,
    mode: mode & 0o777,
    modifiedAt: Number.isNaN(mtime.getTime()) ? new Date(0) : mtime,
    target: target.toString(),
    isSparse: Object.keys(pax ?? {}).some(key => key.startsWith('GNU.sparse')),
    isUtf8: isUtf8(path) && isUtf8(target),
  }
}

async function* bodyOf(
  entry: AsyncIterable<Uint8Array>,
  size: number,
  failure: Promise<unknown>,
): AsyncGenerator<Uint8Array, void, undefined> {
  if (size === 0) return
  try {
    yield* entry
  } catch (error) {
    throw (await failure) ?? damaged(error)
  }
}

/** What tar-stream says, as an error of this command line. */
function damaged(error: unknown): unknown {
  if (error instanceof SandglassError) return error
  const { message } = error as Error
  if (message === 'Unexpected end of data') return endsTooEarly()
  return unsafe('the archive', message === 'Header exceeds max size' ? 'has a header that is too long' : 'is damaged')
}

export const unsafe = (entry: string, issue: string) =>
  new SandglassError('ARCHIVE_UNSAFE', { entry, issue, next: '`sandglass cp --skip-unsafe` leaves such entries out' })

const endsTooEarly = () => unsafe('the archive', 'ends too early')

/** The bytes of a tar, counted. A tar ends with a block of zeros; tar-stream accepts one that was cut between two entries. */
class TarBytes implements AsyncIterable<Uint8Array> {
  /** The error that the source failed with. */
  failure: unknown
  readonly #source: AsyncIterable<Uint8Array>
  #count = 0
  /** The last bytes, up to a block. */
  #tail = Buffer.alloc(0)

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    const source = this.#source[Symbol.asyncIterator]()
    try {
      for (;;) {
        const { done, value } = await source.next().catch(error => {
          this.failure = error
          throw error
        })
        if (done) return
        this.#count += value.length
        this.#tail = Buffer.concat([this.#tail, value.subarray(-BLOCK)]).subarray(-BLOCK)
        yield value
      }
    } finally {
      await source.return?.()
    }
  }

  /** Throws unless a block of zeros follows the last entry, which ends at `offset`. */
  requireEndAfter(offset: number): void {
    if (this.#count < offset + BLOCK || this.#tail.length < BLOCK || this.#tail.some(byte => byte !== 0)) throw endsTooEarly()
  }
}
