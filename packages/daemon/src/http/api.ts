// What the HTTP side works with, and the shape of a handler for each route of the contract.
import type { PATHS, RouteBody, RouteHeaders, RouteName, RouteParams, RouteQuery, RouteReply } from '@sandglass/contract'
import type { FastifyRequest } from 'fastify'
import type { WebSocket } from 'ws'
import type { Logger } from '../log.ts'
import type { SessionContext } from '../sessions/context.ts'
import type { PagedReply } from '../sessions/pages.ts'

export type Api = {
  readonly context: SessionContext
  readonly apiKey: string
  readonly version: string
}

/** One request, parsed. */
export type Call<N extends RouteName> = {
  params: RouteParams<N>
  query: RouteQuery<N>
  body: RouteBody<N>
  headers: RouteHeaders<N>
  request: FastifyRequest
  /** Aborts when the client goes away or the daemon stops. */
  signal: AbortSignal
  /** Aborts when the client goes away. A stream or file aborts it also after its end. A daemon that stops closes connections too. */
  gone: AbortSignal
  log: Logger
}
/** A WebSocket's handshake, parsed. */
export type UpgradeCall<N extends RouteName> = Pick<Call<N>, 'params' | 'query' | 'signal' | 'log'>

export type SseEvent = { event: string; data: unknown; id?: string | number }
export type BytesReply = {
  status?: number
  headers: Record<string, string | number>
  chunks: AsyncIterable<Uint8Array>
  /** Called with each chunk that was sent. */
  recycle?: (chunk: Uint8Array) => void
  close?: () => void
}

type Paged<R> = R extends { items: readonly unknown[] } ? PagedReply<R> : never
type Kind<N extends RouteName> = (typeof PATHS)[N]['kind']
type Handler<N extends RouteName> =
  Kind<N> extends 'json'
    ? (call: Call<N>) => Promise<RouteReply<N> | Paged<RouteReply<N>>> | RouteReply<N>
    : Kind<N> extends 'sse'
      ? (call: Call<N>) => Promise<AsyncIterable<SseEvent>>
      : Kind<N> extends 'bytes'
        ? (call: Call<N>) => Promise<BytesReply>
        : (call: UpgradeCall<N>) => Promise<(socket: WebSocket) => void>

/** Exactly one handler per route: a route without one does not compile. */
export type Handlers = { [N in RouteName]: Handler<N> }
