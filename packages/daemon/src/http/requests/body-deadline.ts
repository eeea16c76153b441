// Ends requests whose body does not come. Without it a client could hold a connection, a stream to a runner and a file being written for ever.
import { SandglassError } from '@sandglass/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'

const LOOKS_PER_STALL = 4

export type BodyDeadlines = {
  /** Longest time without a byte. */
  readonly stallMs: number
  /** Longest time for the whole; null where it has any size, and comes as fast as it comes. */
  readonly totalMs: number | null
}

/** `cut` answers the request, if it has no answer yet; the connection goes after that. */
export function watchBody(
  { raw, socket }: FastifyRequest,
  response: FastifyReply,
  { stallMs, totalMs }: BodyDeadlines,
  cut: (error: SandglassError) => void,
): void {
  if (raw.complete) return
  const began = performance.now()
  let [seen, arrived] = [socket.bytesRead, began]
  const looks = setInterval(() => {
    const now = performance.now()
    // With bytes in the buffer it is the reader that is slow: the sandbox, whose disk may be, or which may be paused.
    if (socket.bytesRead !== seen || raw.readableLength > 0) [seen, arrived] = [socket.bytesRead, now]
    const isStalled = now - arrived >= stallMs
    if (!isStalled && (totalMs === null || now - began < totalMs)) return
    clearInterval(looks)
    const ms = isStalled ? stallMs : (totalMs ?? 0)
    const error = new SandglassError('BODY_TIMEOUT', { stalled: isStalled, seconds: ms / 1000 })
    if (response.sent || raw.complete) return void raw.destroy(error)
    response.raw.once('close', () => raw.destroy(error)).once('finish', () => raw.destroy(error))
    cut(error)
  }, stallMs / LOOKS_PER_STALL)
  looks.unref()
  raw.once('close', () => clearInterval(looks))
}
