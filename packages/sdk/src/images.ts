import { SandglassError } from '@sandglass/contract/tables'
import type { BodySource } from './transport/body.ts'
import { toCamel } from './transport/case.ts'
import { unreachable } from './transport/errors.ts'
import { bodyOf, streamError } from './transport/follow.ts'
import { readEvents } from './transport/sse.ts'
import type { ResponseLike, Transport } from './transport/transport.ts'
import type { BuildResult, BuildStep, Cancel, ImageInfo, ImageProgress, ImageRemoved, Query } from './wire-types.ts'

/** `onProgress` is told how far each layer is, several times a second. */
export type ImageOptions = { onProgress?: (layer: ImageProgress) => void } & Cancel

export type BuildOptions = NonNullable<Query<'buildImage'>> & {
  /** Values of the Dockerfile's ARGs. A step can write them into the image: they are no place for secrets. */
  buildArgs?: Record<string, string>
  /** Told when a step begins, and again when it turns out that it need not be run. */
  onStep?: (step: BuildStep) => void
  /** Told what the steps print, in whole lines. */
  onOutput?: (text: string) => void
} & ImageOptions

/** Root filesystems that sessions start from. */
export class Images {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Brings an image from its registry into the store. What came of a pull that was given up is not downloaded again. */
  async pull(reference: string, { signal, onProgress }: ImageOptions = {}): Promise<ImageInfo> {
    const response = await this.#transport.open('pullImage', { body: { reference }, headers: STREAM, signal })
    return (await this.#finish(response, { progress: onProgress }, signal)) as ImageInfo
  }

  /** The images of a docker save archive or of an OCI layout, as a tar. `reference` names the one image of an archive. */
  async importArchive(body: BodySource, options: { reference?: string } & ImageOptions = {}): Promise<ImageInfo[]> {
    const { reference, onProgress, signal } = options
    const headers = { ...STREAM, 'content-type': 'application/x-tar' }
    const response = await this.#transport.open('importImage', { query: { reference }, raw: body, headers, signal })
    return ((await this.#finish(response, { progress: onProgress }, signal)) as { items: ImageInfo[] }).items
  }

  /** An image from a Dockerfile. `body` is a tar with it and its files. What has the same content and is not too old is not built again. */
  async build(body: BodySource, options: BuildOptions = {}): Promise<BuildResult> {
    const { buildArgs, onStep, onOutput, onProgress, signal, ...query } = options
    const headers = { ...STREAM, 'content-type': 'application/x-tar', ...(buildArgs ? { 'x-build-args': ascii(buildArgs) } : {}) }
    const response = await this.#transport.open('buildImage', { query, raw: body, headers, signal })
    return (await this.#finish(response, { progress: onProgress, step: onStep, output: onOutput }, signal)) as BuildResult
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

  async #finish(response: ResponseLike, listeners: Listeners, signal: AbortSignal | undefined): Promise<unknown> {
    try {
      for await (const event of readEvents(bodyOf(response))) {
        if (event.type === 'progress') listeners.progress?.(toCamel(JSON.parse(event.data)) as ImageProgress)
        else if (event.type === 'step') listeners.step?.(toCamel(JSON.parse(event.data)) as BuildStep)
        else if (event.type === 'output') listeners.output?.((JSON.parse(event.data) as { text: string }).text)
        else if (event.type === 'done') return toCamel(JSON.parse(event.data))
        else if (event.type === 'error') throw streamError(event)
      }
    } catch (error) {
      signal?.throwIfAborted()
      throw error instanceof SandglassError ? error : unreachable(this.#transport.options.address, error)
    }
    throw unreachable(this.#transport.options.address, new Error('the stream ended before the work did'))
  }
}

type Listeners = {
  progress: ImageOptions['onProgress']
  step?: BuildOptions['onStep']
  output?: BuildOptions['onOutput']
}

/** JSON that a header can carry. */
const ascii = (value: unknown) =>
  JSON.stringify(value).replaceAll(/[\u007f-\uffff]/g, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)

const STREAM = { accept: 'text/event-stream' }
