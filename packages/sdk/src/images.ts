import { SandglassError } from '@sandglass/contract/tables'
import type { BodySource } from './transport/body.ts'
import { toCamel } from './transport/case.ts'
import { download } from './transport/download.ts'
import { unreachable } from './transport/errors.ts'
import { collect, PAGE_SIZE, paged } from './transport/pages.ts'
import { bodyOf, streamError } from './transport/resume-events.ts'
import { readEvents } from './transport/sse.ts'
import type { ResponseLike, Transport } from './transport/transport.ts'
import type { BuildHash, BuildResult, BuildStep, Cancel, ImageInfo, ImageProgress, ImageRemoved, Query } from './wire-types.ts'

/** `onProgress` gets the progress of each layer, several times a second. */
export type ImageOptions = { onProgress?: (layer: ImageProgress) => void } & Cancel

export type BuildOptions = NonNullable<Query<'buildImage'>> & {
  /** Values of the Dockerfile's ARGs. SECURITY: a step can write them into the image, so they must not be secrets. */
  buildArgs?: Record<string, string>
  /** Called when a step begins, and again if its result is cached. */
  onStep?: (step: BuildStep) => void
  /** Called with the output of the steps, in whole lines. */
  onOutput?: (text: string) => void
} & ImageOptions

export type HashOptions = NonNullable<Query<'hashImage'>> & Pick<BuildOptions, 'buildArgs'> & Cancel

/** The images in the store of the daemon. */
export class Images {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Pulls an image from its registry into the store. A pull after an aborted one resumes its downloads. */
  async pull(reference: string, { signal, onProgress }: ImageOptions = {}): Promise<ImageInfo> {
    const response = await this.#transport.open('pullImage', { body: { reference }, headers: STREAM, signal })
    return (await this.#finish(response, { progress: onProgress }, signal)) as ImageInfo
  }

  /** Imports the images of a docker save archive or an OCI layout, as a tar. `reference` names the image of an archive with one image. */
  async importArchive(body: BodySource, options: { reference?: string } & ImageOptions = {}): Promise<ImageInfo[]> {
    const { reference, onProgress, signal } = options
    const headers = { ...STREAM, 'content-type': 'application/x-tar' }
    const response = await this.#transport.open('importImage', { query: { reference }, raw: body, headers, signal })
    return ((await this.#finish(response, { progress: onProgress }, signal)) as { items: ImageInfo[] }).items
  }

  /** Builds an image from a Dockerfile. `body` is a tar with the Dockerfile and its files. A recent result of the same content is reused. */
  async build(body: BodySource, options: BuildOptions = {}): Promise<BuildResult> {
    const { buildArgs, onStep, onOutput, onProgress, signal, ...query } = options
    const headers = { ...STREAM, ...buildHeaders(buildArgs) }
    const response = await this.#transport.open('buildImage', { query, raw: body, headers, signal })
    return (await this.#finish(response, { progress: onProgress, step: onStep, output: onOutput }, signal)) as BuildResult
  }

  /** The content hash that a build of these files would have, and the image that was built from the same content. Nothing is built. */
  hash(body: BodySource, { buildArgs, signal, ...query }: HashOptions = {}): Promise<BuildHash> {
    return this.#transport.json('hashImage', { query, raw: body, headers: buildHeaders(buildArgs), signal })
  }

  /** An image as a tar that `importArchive` and `docker load` read. `ref` becomes its name in the archive, unless it is an id. */
  save(ref: string, { signal }: Cancel = {}): Promise<ReadableStream<Uint8Array>> {
    return download(this.#transport, 'imageArchive', { params: { ref }, signal })
  }

  /** All images in the store, newest first. */
  list({ signal }: Cancel = {}): Promise<ImageInfo[]> {
    return collect(paged(cursor => this.#transport.json('listImages', { query: { limit: PAGE_SIZE, cursor }, signal })))
  }

  /** Finds an image by reference, by id, or by 12 or more characters of its id. */
  get(ref: string, { signal }: Cancel = {}): Promise<ImageInfo> {
    return this.#transport.json('getImage', { params: { ref }, signal })
  }

  /** Removes a name of an image; the last name removes the image. */
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

const buildHeaders = (buildArgs: Record<string, string> | undefined) => ({
  'content-type': 'application/x-tar',
  ...(buildArgs ? { 'x-build-args': ascii(buildArgs) } : {}),
})

/** JSON with non-ASCII characters escaped, as a header needs it. */
const ascii = (value: unknown) =>
  JSON.stringify(value).replaceAll(/[\u007f-\uffff]/g, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)

const STREAM = { accept: 'text/event-stream' }
