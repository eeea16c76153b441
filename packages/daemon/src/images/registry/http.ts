// Sends one request to a registry, its token server or its blob storage. The caller follows redirects.
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import { getCACertificates } from 'node:tls'
import { addressProblem, guardedLookup, RefusedAddress } from './addresses.ts'

/** A connection on which nothing arrives for so long is closed. */
const IDLE_MS = 30_000

export interface Hop {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  /** Whether addresses in private networks are allowed. */
  readonly allowPrivate: boolean
  /** A certificate authority in addition to the default ones. */
  readonly ca: string | undefined
}

/** Keeps connections open between the requests of one pull. */
export class Connections {
  readonly #agents = new Map<string, HttpAgent | HttpsAgent>()

  async get({ url, headers, allowPrivate, ca }: Hop, signal: AbortSignal): Promise<IncomingMessage> {
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const problem = isIP(host) === 0 ? null : addressProblem(host, allowPrivate)
    if (problem !== null) throw new RefusedAddress(problem)
    const isTls = url.protocol === 'https:'
    const agent = this.#agent(isTls, `${isTls} ${allowPrivate} ${ca ?? ''}`, allowPrivate, ca)
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const call = (isTls ? httpsRequest : httpRequest)(url, {
      agent,
      headers: { 'user-agent': 'sandglass', 'accept-encoding': 'identity', ...headers },
      signal,
      timeout: IDLE_MS,
    })
    // An error after the response is reported by the body stream.
    call.once('response', resolve).on('error', reject)
    call.once('timeout', () => call.destroy(new Error(`no data for ${IDLE_MS / 1000} seconds`)))
    call.end()
    return await promise
  }

  close(): void {
    for (const agent of this.#agents.values()) agent.destroy()
    this.#agents.clear()
  }

  #agent(isTls: boolean, key: string, allowPrivate: boolean, ca: string | undefined): HttpAgent | HttpsAgent {
    const found = this.#agents.get(key)
    if (found) return found
    const options = { keepAlive: true, lookup: guardedLookup(allowPrivate) }
    // The `ca` option replaces the default authorities, so they are added here.
    const authorities = ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] }
    const agent = isTls ? new HttpsAgent({ ...options, ...authorities }) : new HttpAgent(options)
    this.#agents.set(key, agent)
    return agent
  }
}

/** The body, or null if it is longer than `maxBytes`. */
export async function readBody(message: IncomingMessage, maxBytes: number): Promise<Buffer | null> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of message as AsyncIterable<Buffer>) {
    size += piece.length
    if (size > maxBytes) {
      message.destroy()
      return null
    }
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}
