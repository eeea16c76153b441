// Moves a body into a connection, no faster than the connection takes it.
import { IncomingBody } from './h1/incoming-body.ts'
import type { HeaderList, OutgoingBody } from './message.ts'

/** Where the bytes of a body are written, with the framing of the connection put around them. */
export interface BodySink {
  /** False if the caller should wait for `onDrain`. */
  write(data: Uint8Array): boolean
  /** Throws if the body has another length than announced. */
  end(trailers: HeaderList): void
  onDrain: (() => void) | null
}

/** A body on its way. */
export interface Sending {
  /** Rejects if the body fails or was stopped. */
  readonly finished: Promise<void>
  /** Takes no more of the body. What is left of it stays unread. */
  stop(error: Error): void
}

const NO_TRAILERS = (): HeaderList => []

/** A body that nobody has read from goes from connection to connection without a stream between them. */
export function sendBody(body: OutgoingBody, sink: BodySink, trailers: () => HeaderList = NO_TRAILERS): Sending {
  if (body instanceof IncomingBody && body.isUntouched) return body.forward(sink, trailers)
  const { promise: finished, resolve, reject } = Promise.withResolvers<void>()
  const finish = () => {
    try {
      sink.end(trailers())
      resolve()
    } catch (error) {
      reject(error)
    }
  }
  if (body === null || body instanceof Uint8Array) {
    if (body !== null && body.length > 0) sink.write(body)
    finish()
    return { finished, stop: () => undefined }
  }
  const onData = (data: Buffer) => {
    try {
      if (!sink.write(data)) body.pause()
    } catch (error) {
      stop(asError(error))
    }
  }
  const onEnd = () => {
    detach()
    finish()
  }
  const onClose = () => stop(body.errored ?? new Error('the body was closed before its end'))
  const detach = () => {
    body.off('data', onData).off('end', onEnd).off('close', onClose)
    sink.onDrain = null
  }
  const stop = (error: Error) => {
    detach()
    body.pause()
    reject(error)
  }
  sink.onDrain = () => body.resume()
  // An error is followed by a close.
  body.on('error', () => undefined)
  if (body.destroyed && !body.readableEnded) stop(body.errored ?? new Error('the body was closed before its end'))
  else if (body.readableEnded) finish()
  else body.on('data', onData).on('end', onEnd).on('close', onClose).resume()
  return { finished, stop }
}

export const asError = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)))
