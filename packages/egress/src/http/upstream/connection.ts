// What a connection to a server does, in either version of HTTP.
import type { Duplex } from 'node:stream'
import type { Body, HeaderList, OutgoingBody, RequestHead, ResponseHead } from '../message.ts'
import type { DialTarget } from './dial.ts'

export interface UpstreamRequest {
  readonly head: RequestHead
  readonly body: OutgoingBody
  readonly trailers?: () => HeaderList
  /** Ends the request, and the reply while its body arrives. */
  readonly signal: AbortSignal
}

export interface Reply {
  readonly head: ResponseHead
  /** Must be read to its end or destroyed. */
  readonly body: Body
  /** None before the end of the body. */
  trailers(): HeaderList
  /** After a 101: the connection as a paused stream of raw bytes, which the caller owns. */
  readonly tunnel: Duplex | null
}

export interface UpstreamConnection {
  readonly protocol: '1.1' | '2'
  /** Address that was dialled; null if a proxy has dialled it. */
  readonly address: string | null
  /** False once it can carry no further request. */
  readonly isUsable: boolean
  send(request: UpstreamRequest): Promise<Reply>
  destroy(): void
}

/** SECURITY: a connection to an address that is not among the checked ones any more is not used for another request. */
export const isFor = ({ address }: UpstreamConnection, { addresses }: DialTarget): boolean =>
  address === null || addresses.some(one => one.address === address)

/** The server closed a connection that it had kept open, before it sent anything: the request was probably never seen. */
export class StaleConnectionError extends Error {}

/** More of these before the final reply are an attack or an error. */
export const MAX_INFORMATIONAL = 32
