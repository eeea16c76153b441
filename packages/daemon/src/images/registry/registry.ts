// Client for one repository of a registry during one pull: manifests, blobs, authentication and redirects.
import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { type Config, LIMITS, SandglassError } from '@sandglass/contract'
import { digestOf, MANIFEST_TYPE } from '../manifest.ts'
import { DOCKER_HUB, type Reference } from '../reference.ts'
import { isPrivate } from './addresses.ts'
import { basicOf, parseChallenge, withoutCredentials } from './authentication.ts'
import { Connections, readBody } from './http.ts'
import { unreachable } from './unreachable.ts'

type Settings = Config['registries'][string]

/** Docker Hub's images are named docker.io, but its registry has another host name. */
const HUB_HOST = 'registry-1.docker.io'
const DOCUMENT_MS = 60_000
const MAX_REDIRECTS = 5
const MAX_TOKEN_BYTES = 1024 * 1024
const MAX_DISCARDED = 16 * 1024
/** Characters of a registry's message that are repeated. */
const MAX_MESSAGE = 200
const MANIFEST_TYPES = [
  'application/vnd.oci.image.index.v1+json',
  MANIFEST_TYPE,
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
]

export class Registry {
  readonly #reference: Reference
  readonly #registries: Config['registries']
  readonly #settings: Settings
  readonly #base: URL
  readonly #ca: string | undefined
  readonly #documentMs: number
  readonly #connections = new Connections()
  /** Authorization header for the registry; '' until it asks for one. */
  #authorization = ''
  /** Whether the registry is in a private network. Then it may redirect to other private addresses. */
  #isPrivate = false

  /** `documentMs` is the deadline for a manifest or a configuration, including authentication. */
  constructor(reference: Reference, registries: Config['registries'], documentMs = DOCUMENT_MS) {
    this.#reference = reference
    this.#documentMs = documentMs
    this.#registries = registries
    this.#settings = registries[reference.registry] ?? {}
    const host = reference.registry === DOCKER_HUB ? HUB_HOST : reference.registry
    this.#base = new URL(`${this.#settings.plain_http ? 'http' : 'https'}://${host}/v2/${reference.repository}/`)
    this.#ca = this.#settings.ca_file === undefined ? undefined : readAuthority(reference.registry, this.#settings.ca_file)
  }

  get name(): string {
    return this.#reference.registry
  }

  close(): void {
    this.#connections.close()
  }

  /** By tag or digest. Throws IMAGE_DIGEST_MISMATCH if the bytes do not match the digest. */
  async manifest(tagOrDigest: string, signal: AbortSignal): Promise<{ bytes: Buffer; digest: string }> {
    const { name } = this.#reference
    const accept = { accept: MANIFEST_TYPES.join(', ') }
    const max = LIMITS.image_manifest_bytes.max
    const { bytes, headers } = await this.#document(`manifests/${tagOrDigest}`, accept, max, 'bytes of manifest', signal)
    const digest = digestOf(bytes)
    const promised = tagOrDigest.startsWith('sha256:') ? tagOrDigest : headers['docker-content-digest']
    if (typeof promised === 'string' && promised.startsWith('sha256:') && promised !== digest)
      throw new SandglassError('IMAGE_DIGEST_MISMATCH', { image: name, digest: promised, issue: `is ${digest}` })
    return { bytes, digest }
  }

  /** Reads a small blob completely. */
  async smallBlob(digest: string, signal: AbortSignal): Promise<Buffer> {
    const max = LIMITS.image_config_bytes.max
    const { bytes } = await this.#document(`blobs/${digest}`, {}, max, 'bytes of configuration', signal)
    const found = digestOf(bytes)
    if (found !== digest)
      throw new SandglassError('IMAGE_DIGEST_MISMATCH', { image: this.#reference.name, digest, issue: `is ${found}` })
    return bytes
  }

  /** Requests a blob from a byte on. `start` is where the body really begins: not every registry supports ranges. */
  async blob(digest: string, from: number, signal: AbortSignal): Promise<{ body: IncomingMessage; start: number }> {
    const body = await this.#get(`blobs/${digest}`, from > 0 ? { range: `bytes=${from}-` } : {}, signal)
    if (body.statusCode !== 206) return { body, start: 0 }
    const start = /^bytes (\d+)-/.exec(body.headers['content-range'] ?? '')?.[1]
    return { body, start: start === undefined ? from : Number(start) }
  }

  /** SECURITY: the deadline stops a registry that sends a byte now and then and so is never idle. */
  async #document(
    path: string,
    headers: Record<string, string>,
    max: number,
    what: string,
    signal: AbortSignal,
  ): Promise<{ bytes: Buffer; headers: IncomingMessage['headers'] }> {
    const deadline = AbortSignal.timeout(this.#documentMs)
    try {
      const reply = await this.#get(path, headers, AbortSignal.any([signal, deadline]))
      return { bytes: await this.#readAll(reply, max, what), headers: reply.headers }
    } catch (error) {
      signal.throwIfAborted()
      if (deadline.aborted) throw this.#failed(`${path.split('/')[0]} did not arrive within ${this.#documentMs / 1000} seconds`)
      throw error
    }
  }

  async #get(path: string, headers: Record<string, string>, signal: AbortSignal): Promise<IncomingMessage> {
    const url = new URL(path, this.#base)
    let { reply, isRegistry } = await this.#follow(url, headers, signal)
    // SECURITY: only the registry itself may ask for credentials and name a token server.
    if (reply.statusCode === 401 && isRegistry) {
      const challenge = reply.headers['www-authenticate']
      discard(reply)
      await this.#authorize(challenge, signal)
      reply = (await this.#follow(url, headers, signal)).reply
    }
    if (reply.statusCode === 200 || reply.statusCode === 206) return reply
    throw await this.#refusal(reply)
  }

  /** SECURITY: Authorization is sent to the registry only, never to the target of a redirect. */
  async #follow(
    start: URL,
    headers: Record<string, string>,
    signal: AbortSignal,
  ): Promise<{ reply: IncomingMessage; isRegistry: boolean }> {
    let url = start
    for (let hops = 0; hops <= MAX_REDIRECTS; hops++) {
      const isRegistry = url.origin === this.#base.origin
      const hasAuthorization = isRegistry && this.#authorization !== ''
      const reply = await this.#request(
        url,
        hasAuthorization ? { ...headers, authorization: this.#authorization } : headers,
        signal,
      )
      if (isRegistry && hops === 0) this.#isPrivate = isPrivate(reply.socket.remoteAddress ?? '')
      const { location } = reply.headers
      if (![301, 302, 303, 307, 308].includes(reply.statusCode ?? 0) || location === undefined) return { reply, isRegistry }
      discard(reply)
      url = this.#checked(location, url)
    }
    throw this.#failed(`it redirects more than ${MAX_REDIRECTS} times`)
  }

  async #request(url: URL, headers: Record<string, string>, signal: AbortSignal): Promise<IncomingMessage> {
    const isRegistry = url.origin === this.#base.origin
    const allowPrivate = isRegistry || this.#isPrivate || Object.hasOwn(this.#registries, url.host)
    const ca = this.#authority(url)
    try {
      return await this.#connections.get({ url, headers, allowPrivate, ca }, signal)
    } catch (error) {
      signal.throwIfAborted()
      throw this.#unreachable(url, error)
    }
  }

  /** SECURITY: a registry's certificate authority is trusted for that host only, unless the configuration sets it for the other host too. */
  #authority({ host, hostname }: URL): string | undefined {
    if (hostname === this.#base.hostname) return this.#ca
    const file = this.#registries[host]?.ca_file
    return file === undefined ? undefined : readAuthority(host, file)
  }

  /** SECURITY: the target of a redirect must use TLS, unless the configuration allows plain HTTP for exactly that host. */
  #checked(location: string, from: URL): URL {
    if (!URL.canParse(location, from.href))
      throw this.#failed(`it redirects to ${this.#redacted(JSON.stringify(location)) || 'an invalid URL'}`)
    const url = new URL(location, from.href)
    url.username = ''
    url.password = ''
    const isPlain = url.protocol === 'http:' && this.#registries[url.host]?.plain_http === true
    if (url.protocol !== 'https:' && !isPlain && url.origin !== this.#base.origin)
      throw this.#failed(`it redirects to ${this.#redacted(url.origin) || 'a host'}, which has no TLS`)
    return url
  }

  async #authorize(header: string | undefined, signal: AbortSignal): Promise<void> {
    const basic = basicOf(this.#settings)
    const challenge = parseChallenge(header)
    if (challenge?.scheme === 'basic' && basic !== '' && this.#authorization !== basic) {
      this.#authorization = basic
      return
    }
    if (challenge?.scheme !== 'bearer')
      throw this.#denied(basic === '' ? 'it requires a username and a password' : 'it rejects the username or password')
    const url = this.#checked(challenge.params.realm ?? '', this.#base)
    if (challenge.params.service !== undefined) url.searchParams.set('service', challenge.params.service)
    url.searchParams.set('scope', `repository:${this.#reference.repository}:pull`)
    const reply = await this.#request(url, basic === '' ? {} : { authorization: basic }, signal)
    if (reply.statusCode !== 200) {
      discard(reply)
      throw this.#denied(`its token server answered ${reply.statusCode}`)
    }
    this.#authorization = `Bearer ${tokenIn(await this.#readAll(reply, MAX_TOKEN_BYTES, 'bytes of token')) ?? ''}`
    if (this.#authorization === 'Bearer ') throw this.#failed('its token server returned no token')
  }

  async #readAll(reply: IncomingMessage, max: number, what: string): Promise<Buffer> {
    const bytes = await readBody(reply, max).catch(error => {
      throw this.#unreachable(this.#base, error)
    })
    if (bytes === null) throw new SandglassError('IMAGE_TOO_LARGE', { image: this.#reference.name, what, max })
    return bytes
  }

  async #refusal(reply: IncomingMessage): Promise<SandglassError> {
    const { registry, name } = this.#reference
    const why = this.#redacted(await explanation(reply)).slice(0, MAX_MESSAGE)
    if (reply.statusCode === 404) return new SandglassError('IMAGE_NOT_FOUND', { image: name, registry })
    if (reply.statusCode === 401 || reply.statusCode === 403) return this.#denied(why || `it answered ${reply.statusCode}`)
    return this.#failed(`it answered ${reply.statusCode}${why ? `: ${why}` : ''}`)
  }

  #redacted(message: string): string {
    return withoutCredentials(message, { ...this.#settings, authorization: this.#authorization })
  }

  #denied(why: string): SandglassError {
    const { registry, name } = this.#reference
    return new SandglassError('REGISTRY_DENIED', { registry, image: name, why })
  }

  #failed(why: string): SandglassError {
    return new SandglassError('REGISTRY_FAILED', { registry: this.#reference.registry, why })
  }

  #unreachable(url: URL, error: unknown): SandglassError {
    return unreachable(this.#reference.registry, url.origin === this.#base.origin ? '' : url.host, error)
  }
}

/** Reads a short body to its end, so that the connection can be reused. */
function discard(reply: IncomingMessage): void {
  const length = reply.headers['content-length']
  if (length !== undefined && Number(length) <= MAX_DISCARDED) reply.resume()
  else reply.destroy()
}

function readAuthority(registry: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const detail = { source: `registries.${registry}.ca_file`, issue: `cannot be read: ${(error as Error).message}` }
    throw new SandglassError('CONFIG_INVALID', detail, { cause: error })
  }
}

function tokenIn(bytes: Buffer): string | undefined {
  try {
    const { token, access_token } = JSON.parse(bytes.toString('utf8')) as { token?: unknown; access_token?: unknown }
    const found = token ?? access_token
    // SECURITY: the token becomes a header value.
    return typeof found === 'string' && /^[\x21-\x7e]+$/.test(found) ? found : undefined
  } catch {
    return undefined // not JSON: there is no token
  }
}

/** The error message of the registry, '' if it has none. */
async function explanation(reply: IncomingMessage): Promise<string> {
  try {
    const body = JSON.parse((await readBody(reply, 64 * 1024))?.toString('utf8') ?? '') as { errors?: { message?: unknown }[] }
    const message = body.errors?.[0]?.message
    return typeof message === 'string' ? message : ''
  } catch {
    return '' // not JSON: the status is reported instead
  }
}
