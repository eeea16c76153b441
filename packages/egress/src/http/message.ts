// An HTTP message and an exchange of two, as all parts of the egress process see them, whatever version they travel in.
import type { Duplex, Readable } from 'node:stream'

/**
 * In the order and with the names that the sender used; names in HTTP/2 are lower case. Pseudo-headers and headers that concern one connection
 * only (Connection and what it lists, Keep-Alive, Proxy-*, Transfer-Encoding, Upgrade, TE other than trailers) are not among them.
 *
 * A Content-Length says how long the body is: whoever changes the body of a message removes it.
 */
export type HeaderList = readonly (readonly [name: string, value: string])[]

export interface RequestHead {
  readonly version: '1.0' | '1.1' | '2'
  readonly method: string
  readonly scheme: 'http' | 'https'
  /** As `normaliseHost` returns it: lower case, no trailing dot, no brackets. */
  readonly host: string
  readonly port: number
  /** Path and query as sent, in origin form: it starts with / or is *. Empty for CONNECT. */
  readonly target: string
  readonly headers: HeaderList
  /** websocket, or null for an ordinary request. Other protocols are not asked for: an Upgrade header may be ignored. */
  readonly upgrade: 'websocket' | null
}

export interface ResponseHead {
  readonly status: number
  readonly headers: HeaderList
}

/** Bytes of a body with the framing removed; null for a message without a body. */
export type Body = Readable | null

/** A body to be sent. A Buffer can be sent again when a kept-alive connection turns out to be dead. */
export type OutgoingBody = Readable | Uint8Array | null

/** A request from the sandbox that waits for its reply. */
export interface Exchange {
  readonly head: RequestHead
  /** Destroying it before its end makes the connection end after the reply. One that is passed on unread to `send` is forwarded without copies. */
  readonly body: Body
  /** Trailers of the request; none before the end of its body. */
  trailers(): HeaderList
  /** Bytes of the request's body that have been read so far. */
  readonly bytesReceived: number
  /** Bytes of the reply's body that have been sent so far. */
  readonly bytesSent: number
  /** Aborts when the client goes away before the reply is complete. */
  readonly signal: AbortSignal
  /** Once per exchange. Resolves when the whole reply has been given to the connection; rejects when the client goes away or the body fails. */
  respond(head: ResponseHead, body: OutgoingBody, trailers?: () => HeaderList): Promise<void>
  /**
   * Instead of `respond`: sends the head of a 101, or of a 200 to a CONNECT, and gives the connection back as a paused stream of raw bytes,
   * those that have arrived already included. HTTP/1.1 only.
   */
  upgrade(head: ResponseHead): Duplex
}

/** Answers one request. An exchange that it leaves unanswered ends its connection. */
export type Handler = (exchange: Exchange) => Promise<void>

/** Values of all headers of this name, which is lower case. */
export const valuesOf = (headers: HeaderList, name: string): string[] =>
  headers.filter(([key]) => key.toLowerCase() === name).map(([, value]) => value)

/** The list without all headers of this name, which is lower case. */
export const without = (headers: HeaderList, name: string): HeaderList => headers.filter(([key]) => key.toLowerCase() !== name)
