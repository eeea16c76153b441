import { SandglassError } from '@sandglass/contract/tables'
import type { BodySource } from './body.ts'
import { toCamel } from './case.ts'
import { bodyOf, streamError } from './follow.ts'
import { readEvents } from './sse.ts'
import { type ResponseLike, type Transport, unreachable } from './transport.ts'
import type { Cancel, ImageInfo, ImageProgress, ImageRemoved } from './wire-types.ts'

/** `onProgress` is told how far each layer is, several times a second. */
export type ImageOptions = { onProgress?: (layer: ImageProgress) => void } & Cancel

/** Root filesystems that sessions start from. */
export class Images {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Brings an image from its registry into the store. What came of a pull that was given up is not downloaded again. */
  async pull(reference: string, { signal, onProgress }: ImageOptions = {}): Promise<ImageInfo> {
    const response = await this.#transport.open('pullImage', { body: { reference }, headers: STREAM, signal })
    return (await this.#finish(response, onProgress, signal)) as ImageInfo
  }

  /** The images of a docker save archive or of an OCI layout, as a tar. `reference` names the one image of an archive. */
  async importArchive(body: BodySource, options: { reference?: string } & ImageOptions = {}): Promise<ImageInfo[]> {
    const { reference, onProgress, signal } = options
    const headers = { ...STREAM, 'content-type': 'application/x-tar' }
    const response = await this.#transport.open('importImage', { query: { reference }, raw: body, headers, signal })
    return ((await this.#finish(response, onProgress, signal)) as { items: ImageInfo[] }).items
  }

  /** Every image in the store, newest first. */
  async list({ signal }: Cancel = {}): Promise<ImageInfo[]> {
    const found: ImageInfo[] = []
    let cursor: string | undefined
    do {
      const page = await this.#transport.json('listImages', { query: { limit: 200, cursor }, signal })
      found.push(...page.items)
      cursor = page.nextCursor ?? undefined
    } while (cursor !== undefined)
    return found
  }

  /** By reference, by id, or by 12 or more characters of one. */
  get(ref: string, { signal }: Cancel = {}): Promise<ImageInfo> {
    return this.#transport.json('getImage', { params: { ref }, signal })
  }

  /** A name of an image, and with its last name the image itself. */
  remove(ref: string, { signal }: Cancel = {}): Promise<ImageRemoved> {
    return this.#transport.json('deleteImage', { params: { ref }, signal })
  }

  async #finish(
    response: ResponseLike,
    onProgress: ImageOptions['onProgress'],
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    try {
      for await (const event of readEvents(bodyOf(response))) {
        if (event.type === 'progress') onProgress?.(toCamel(JSON.parse(event.data)) as ImageProgress)
        else if (event.type === 'done') return toCamel(JSON.parse(event.data))
        else if (event.type === 'error') throw streamError(event)
      }
    } catch (error) {
      signal?.throwIfAborted()
      throw error instanceof SandglassError ? error : unreachable(this.#transport.options.baseUrl, error)
    }
    throw unreachable(this.#transport.options.baseUrl, new Error('the stream ended before the work did'))
  }
}

const STREAM = { accept: 'text/event-stream' }
