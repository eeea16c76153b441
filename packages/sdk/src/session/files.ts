// `session.files`.
import { SandglassError } from '@sandglass/contract/tables'
import type { BodySource } from '../transport/body.ts'
import { toCamel } from '../transport/case.ts'
import { explainedBody } from '../transport/download.ts'
import { unreachable } from '../transport/errors.ts'
import { follow } from '../transport/resume-events.ts'
import type { Transport } from '../transport/transport.ts'
import type { Body, Cancel, FileInfo, Query, Reply, WatchEvent, WriteOptions } from '../wire-types.ts'

type Given<Name extends 'fsStat' | 'fsList' | 'fsSearch' | 'fsWatch' | 'getFile' | 'putArchive' | 'getArchive'> = Omit<
  Query<Name>,
  'path'
> &
  Cancel
type Changed<Name extends 'fsMkdir' | 'fsMove' | 'fsRemove'> = Omit<Body<Name>, 'path' | 'from' | 'to'> & Cancel

/** Files of a session. A relative path starts at /workspace. */
export class SessionFiles {
  #transport: Transport
  #id: string

  constructor(transport: Transport, id: string) {
    this.#transport = transport
    this.#id = id
  }

  list(path?: string, { signal, ...query }: Given<'fsList'> = {}): Promise<Reply<'fsList'>> {
    return this.#transport.json('fsList', { params: { id: this.#id }, query: { path, ...query }, signal })
  }

  stat(path: string, { signal, ...query }: Given<'fsStat'> = {}): Promise<FileInfo> {
    return this.#transport.json('fsStat', { params: { id: this.#id }, query: { path, ...query }, signal })
  }

  async mkdir(path: string, { signal, ...options }: Changed<'fsMkdir'> = {}): Promise<void> {
    await this.#transport.json('fsMkdir', { params: { id: this.#id }, body: { path, ...options }, signal })
  }

  async move(from: string, to: string, { signal, ...options }: Changed<'fsMove'> = {}): Promise<void> {
    await this.#transport.json('fsMove', { params: { id: this.#id }, body: { from, to, ...options }, signal })
  }

  async remove(path: string, { signal, ...options }: Changed<'fsRemove'> = {}): Promise<void> {
    await this.#transport.json('fsRemove', { params: { id: this.#id }, body: { path, ...options }, signal })
  }

  search(path: string, { signal, ...query }: Given<'fsSearch'>): Promise<Reply<'fsSearch'>> {
    return this.#transport.json('fsSearch', { params: { id: this.#id }, query: { path, ...query }, signal })
  }

  /** Changes as they happen. After a lost connection an `overflow` event says that changes may have been missed. */
  async *watch(path: string, { signal, ...query }: Given<'fsWatch'> = {}): AsyncGenerator<WatchEvent, void, undefined> {
    const onResume = () => ({ type: 'change', data: JSON.stringify({ type: 'overflow', path }), id: undefined })
    const events = follow(this.#transport, 'fsWatch', { params: { id: this.#id }, query: { path, ...query }, signal, onResume })
    for await (const event of events) if (event.type === 'change') yield toCamel(JSON.parse(event.data)) as WatchEvent
  }

  /** Writes a file of any size, atomically. */
  upload(path: string, body: BodySource, { signal, ...query }: WriteOptions = {}): Promise<Reply<'putFile'>> {
    const headers = { 'content-type': 'application/octet-stream' }
    return this.#transport.json('putFile', { params: { id: this.#id }, query: { path, ...query }, raw: body, headers, signal })
  }

  /** A file of any size as a stream; `offset` and `length` ask for a part of it. */
  async download(
    path: string,
    { offset, length, signal, ...query }: { offset?: number; length?: number } & Given<'getFile'> = {},
  ): Promise<ReadableStream<Uint8Array>> {
    const headers = rangeHeader(offset, length)
    const response = await this.#transport.open('getFile', {
      params: { id: this.#id },
      query: { path, ...query },
      headers,
      signal,
    })
    return explainedBody(response, signal, error => loss(this.#transport, this.#id, error))
  }

  /** Unpacks a tar archive into a directory. With `atomic` the directory must not exist, and appears when everything is unpacked. */
  putArchive(path: string, body: BodySource, { signal, ...query }: Given<'putArchive'> = {}): Promise<Reply<'putArchive'>> {
    const headers = { 'content-type': 'application/x-tar' }
    return this.#transport.json('putArchive', { params: { id: this.#id }, query: { path, ...query }, raw: body, headers, signal })
  }

  /**
   * A file or directory as a tar archive. An entry that cannot be read fails the call, unless `onUnreadable` is `skip`.
   * SECURITY: its entries are named by the sandbox; check them before unpacking.
   */
  async getArchive(path: string, { signal, ...query }: Given<'getArchive'> = {}): Promise<ReadableStream<Uint8Array>> {
    const response = await this.#transport.open('getArchive', { params: { id: this.#id }, query: { path, ...query }, signal })
    return explainedBody(response, signal, error => loss(this.#transport, this.#id, error))
  }
}

function rangeHeader(offset = 0, length?: number): Record<string, string> {
  if (offset === 0 && length === undefined) return {}
  return { range: `bytes=${offset}-${length === undefined ? '' : offset + length - 1}` }
}

/** Why a reply broke off, from the state of the session: the daemon stores it before it breaks off the reply. */
async function loss(transport: Transport, id: string, cause: unknown): Promise<unknown> {
  const lost = unreachable(transport.options.address, cause)
  const session = await transport.json('getSession', { params: { id } }).catch(() => undefined) // the daemon does not answer: that is the reason
  if (session === undefined) return lost
  if (session.status === 'running') return new SandglassError('TRANSFER_CUT', { id: session.name ?? session.id }, { cause })
  const { name, status: state, reason, errorMessage: why } = session
  return new SandglassError('RUNNER_LOST', { id: session.id, name, state, reason, why }, { cause })
}
