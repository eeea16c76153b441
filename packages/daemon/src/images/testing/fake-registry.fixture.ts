// For tests: a small registry that can be made to misbehave.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { sha256, type TestImage } from './image.fixture.ts'

/** Answers a request itself and returns true, or returns false to let the registry answer. */
type Trick = (request: IncomingMessage, response: ServerResponse, path: string) => boolean | undefined

export class FakeRegistry {
  readonly requests: { path: string; headers: IncomingMessage['headers'] }[] = []
  readonly #server: Server
  readonly #contents = new Map<string, Buffer>()
  trick: Trick = () => false

  constructor() {
    this.#server = createServer((request, response) => this.#answer(request, response))
  }

  /** Listens until the test ends, on a free port or on `port`. */
  async listen(port = 0): Promise<this> {
    await new Promise<void>(resolve => this.#server.listen(port, '127.0.0.1', resolve))
    onTestFinished(() => this.close())
    return this
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise<void>(resolve => this.#server.close(() => resolve()))
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get host(): string {
    return `127.0.0.1:${this.port}`
  }

  get url(): string {
    return `http://${this.host}`
  }

  /** The daemon configuration that allows this registry. */
  get config(): string {
    return `registries: { '${this.host}': { plain_http: true } }\n`
  }

  push(repository: string, tag: string, image: TestImage): void {
    for (const blob of [image.config, ...image.layers.map(layer => layer.blob)])
      this.#contents.set(`/v2/${repository}/blobs/${sha256(blob)}`, blob)
    for (const name of [tag, image.digest]) this.put(`/v2/${repository}/manifests/${name}`, image.manifest)
  }

  put(path: string, content: Buffer): void {
    this.#contents.set(path, content)
  }

  /** Requests for layers and other blobs. */
  get blobRequests(): { path: string; headers: IncomingMessage['headers'] }[] {
    return this.requests.filter(({ path }) => path.includes('/blobs/'))
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = (request.url ?? '').split('?')[0] ?? ''
    this.requests.push({ path, headers: request.headers })
    if (this.trick(request, response, path)) return
    const content = this.#contents.get(path)
    if (!content) {
      response.writeHead(404).end('{"errors":[{"message":"manifest unknown"}]}')
      return
    }
    this.send(request, response, content)
  }

  send(request: IncomingMessage, response: ServerResponse, content: Buffer): void {
    const from = /^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1]
    if (from === undefined) response.writeHead(200, { 'content-length': content.length }).end(content)
    else {
      const rest = content.subarray(Number(from))
      const range = `bytes ${from}-${content.length - 1}/${content.length}`
      response.writeHead(206, { 'content-length': rest.length, 'content-range': range }).end(rest)
    }
  }
}
