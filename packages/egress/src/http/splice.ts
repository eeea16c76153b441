// Joins two connections: what one sends the other gets, until both have ended.
import type { Duplex } from 'node:stream'

export interface SpliceResult {
  readonly bytesToServer: number
  readonly bytesToClient: number
  /** False if a side failed: then bytes may be missing, and the client should see a reset rather than an end. */
  readonly wasClean: boolean
}

/** An end of one side is passed on, and the other may go on sending. A failure of either ends both. Never rejects. */
export function splice(client: Duplex, server: Duplex): Promise<SpliceResult> {
  const { promise, resolve } = Promise.withResolvers<SpliceResult>()
  let bytesToServer = 0
  let bytesToClient = 0
  let open = 2
  let wasClean = true
  const closed = (side: Duplex, other: Duplex) => {
    const isClean = side.readableEnded && side.writableFinished && side.errored === null
    if (!isClean) other.destroy()
    wasClean &&= isClean
    open -= 1
    if (open === 0) resolve({ bytesToServer, bytesToClient, wasClean })
  }
  for (const [side, other] of [[client, server] as const, [server, client] as const]) {
    side.on('error', () => undefined) // a close follows
    if (side.destroyed) closed(side, other)
    else side.once('close', () => closed(side, other))
  }
  move(client, server, count => {
    bytesToServer += count
  })
  move(server, client, count => {
    bytesToClient += count
  })
  return promise
}

function move(from: Duplex, to: Duplex, onBytes: (count: number) => void): void {
  let isCorked = false
  const flush = () => {
    isCorked = false
    to.uncork()
  }
  from.on('data', (data: Buffer) => {
    onBytes(data.length)
    if (!isCorked) {
      isCorked = true
      to.cork()
      setImmediate(flush)
    }
    if (!to.write(data)) from.pause()
  })
  to.on('drain', () => from.resume())
  from.once('end', () => to.end())
  from.resume()
}
