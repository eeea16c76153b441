// Reads packages from an npm registry: the version behind a tag, the digest of a version, and the bytes of its tarball.
// SECURITY: the registry chooses every byte, and where it redirects to. Lengths are bounded here, and the caller checks the digest.
import type { IncomingMessage } from 'node:http'
import { AGENT_VERSION } from '@sandglass/contract'
import { z } from 'zod'
import { Connections, readBody } from '../../images/registry/http.ts'

// The repository contains no host name of a package registry: a test searches for them.
const NPM_REGISTRY = `https://${['registry', 'npmjs', 'org'].join('.')}`
const MAX_REDIRECTS = 5
const DOCUMENT_MS = 60_000
const MAX_DOCUMENT_BYTES = 4 * 1024 * 1024

const Manifest = z.object({ version: z.string().max(128), dist: z.object({ integrity: z.string().max(1024) }) })

export interface Tarball {
  readonly body: IncomingMessage
  /** As the registry announces it; null if it does not. */
  readonly bytes: number | null
}

export class NpmRegistry {
  readonly #base: URL
  readonly #isConfigured: boolean
  readonly #connections = new Connections()

  constructor(configured: string | undefined) {
    this.#isConfigured = configured !== undefined
    this.#base = new URL(`${(configured ?? NPM_REGISTRY).replace(/\/+$/, '')}/`)
  }

  close(): void {
    this.#connections.close()
  }

  /** The version that the tag `latest` of a package has. */
  async latest(name: string, signal: AbortSignal): Promise<string> {
    const { version } = await this.#manifest(name, 'latest', signal)
    if (!AGENT_VERSION.test(version)) throw new Error(`${this.#base.host} names no version as the latest of ${name}`)
    return version
  }

  /** SECURITY: a digest that came without TLS could be anybody's, unless it came from this machine. */
  async integrity(name: string, version: string, signal: AbortSignal): Promise<string> {
    if (this.#base.protocol !== 'https:' && !LOOPBACK.test(this.#base.hostname))
      throw new Error(`the digest of ${name} ${version} is not known, and ${this.#base.host} is used without TLS`)
    return (await this.#manifest(name, version, signal)).dist.integrity
  }

  async tarball(name: string, version: string, signal: AbortSignal): Promise<Tarball> {
    const file = `${name.replace(/^@[^/]*\//, '')}-${version}.tgz`
    const body = await this.#get(`${name}/-/${file}`, signal)
    const length = Number(body.headers['content-length'])
    return { body, bytes: Number.isSafeInteger(length) ? length : null }
  }

  async #manifest(name: string, version: string, signal: AbortSignal): Promise<z.infer<typeof Manifest>> {
    const path = `${name.replace('/', '%2f')}/${version}`
    const limited = AbortSignal.any([signal, AbortSignal.timeout(DOCUMENT_MS)])
    const body = await readBody(await this.#get(path, limited), MAX_DOCUMENT_BYTES)
    if (body === null) throw new Error(`${this.#base.host} sent more than ${MAX_DOCUMENT_BYTES} bytes about ${name}`)
    const parsed = Manifest.safeParse(jsonOf(body))
    if (!parsed.success) throw new Error(`${this.#base.host} sent no description of ${name} ${version}`)
    return parsed.data
  }

  async #get(path: string, signal: AbortSignal): Promise<IncomingMessage> {
    let url = new URL(path, this.#base)
    for (let hops = 0; hops <= MAX_REDIRECTS; hops++) {
      // A mirror in a private network is fine; being sent into one by a public registry is not.
      const allowPrivate = hops === 0 || this.#isConfigured
      const reply = await this.#connections.get({ url, headers: {}, allowPrivate, ca: undefined }, signal)
      const { statusCode = 0, headers } = reply
      if (statusCode === 200) return reply
      reply.destroy()
      if (statusCode < 300 || statusCode > 399 || headers.location === undefined)
        throw new Error(`${url.host} answered ${statusCode} for ${path}`)
      const next = new URL(headers.location, url)
      if (next.protocol !== 'https:' && next.protocol !== url.protocol)
        throw new Error(`${url.host} redirects to ${next.protocol}`)
      url = next
    }
    throw new Error(`${this.#base.host} redirects more than ${MAX_REDIRECTS} times`)
  }
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return null // no description, which the caller reports
  }
}
