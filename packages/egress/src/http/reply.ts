// Small JSON replies that the egress process gives itself.
import type { HttpError } from './errors.ts'
import type { Exchange, HeaderList } from './message.ts'

export interface JsonReply {
  readonly status: number
  readonly headers: HeaderList
  readonly body: Buffer
}

export function jsonReply(status: number, value: unknown, headers: HeaderList = []): JsonReply {
  const body = Buffer.from(`${JSON.stringify(value)}\n`)
  const own: HeaderList = [
    ['Content-Type', 'application/json'],
    ['Content-Length', String(body.length)],
    ['Cache-Control', 'no-store'],
  ]
  return { status, headers: [...own, ...headers], body }
}

/** What a client gets for a failure. The message says nothing that the client did not send or may not know. */
export const errorReply = (error: HttpError): JsonReply => jsonReply(error.status, { error: error.kind, message: error.message })

export const replyWith = (exchange: Exchange, { status, headers, body }: JsonReply): Promise<void> =>
  exchange.respond({ status, headers }, body)
