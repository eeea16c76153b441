// Types of the HTTP side: its dependencies, and one handler per route of the contract.
import type { PATHS, RouteBody, RouteHeaders, RouteName, RouteParams, RouteQuery, RouteReply } from '@sandglass/contract'
import type { FastifyRequest } from 'fastify'
import type { WebSocket } from 'ws'
import type { Logger } from '../log.ts'
import type { SessionContext } from '../sessions/context.ts'
import type { PagedReply } from '../sessions/pages.ts'
import type { TaskContext } from '../tasks/context.ts'

export type Api = {
  readonly context: SessionContext
  readonly tasks: TaskContext
  readonly apiKey: string
  readonly version: string
}

/** A parsed request. */
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
/** The parsed request of an upgrade to a WebSocket. */
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

/** One handler per route; a missing one does not compile. */
export type Handlers = { [N in RouteName]: Handler<N> }
