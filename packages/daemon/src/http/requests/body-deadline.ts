// Ends requests whose body does not arrive. Otherwise a client could keep a connection, a runner stream and an unfinished file for ever.
import { SandglassError } from '@sandglass/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'

const CHECKS_PER_STALL = 4

export type BodyDeadlines = {
  /** Longest time without a byte. */
  readonly stallMs: number
  /** Longest time for the whole body; null for a body of any size. */
  readonly totalMs: number | null
}

/** `cut` sends the reply if there is none yet; then the connection is closed. */
export function watchBody(
  { raw, socket }: FastifyRequest,
  response: FastifyReply,
  { stallMs, totalMs }: BodyDeadlines,
  cut: (error: SandglassError) => void,
): void {
  if (raw.complete) return
  const began = performance.now()
  let [seen, arrived] = [socket.bytesRead, began]
  const checks = setInterval(() => {
    const now = performance.now()
    // Unread bytes mean that the reader is slow: the sandbox may be paused or its disk may be slow.
    if (socket.bytesRead !== seen || raw.readableLength > 0) [seen, arrived] = [socket.bytesRead, now]
    const isStalled = now - arrived >= stallMs
    if (!isStalled && (totalMs === null || now - began < totalMs)) return
    clearInterval(checks)
    const ms = isStalled ? stallMs : (totalMs ?? 0)
    const error = new SandglassError('BODY_TIMEOUT', { stalled: isStalled, seconds: ms / 1000 })
    if (response.sent || raw.complete) return void raw.destroy(error)
    response.raw.once('close', () => raw.destroy(error)).once('finish', () => raw.destroy(error))
    cut(error)
  }, stallMs / CHECKS_PER_STALL)
  checks.unref()
  raw.once('close', () => clearInterval(checks))
}
