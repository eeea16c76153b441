// Looks at the first bytes of a connection and leaves them in it.
import type { Duplex } from 'node:stream'

export interface FirstBytes<T> {
  /** Returns undefined while more bytes are needed. */
  inspect(bytes: Buffer): T | undefined
  readonly maxBytes: number
  readonly timeoutMs: number
}

/** Null when the connection ends, stays silent, or sends more than `maxBytes` without a result: nothing can be read from it then. */
export function inspectFirst<T>(connection: Duplex, { inspect, maxBytes, timeoutMs }: FirstBytes<T>): Promise<T | null> {
  return new Promise(resolve => {
    const parts: Buffer[] = []
    let length = 0
    const settle = (result: T | null) => {
      clearTimeout(timer)
      connection.off('readable', look).off('end', end).off('close', end).off('error', end)
      if (result !== null) connection.unshift(Buffer.concat(parts))
      resolve(result)
    }
    const end = () => settle(null)
    const look = () => {
      for (let chunk: Buffer | null = connection.read(); chunk !== null; chunk = connection.read()) {
        parts.push(chunk)
        length += chunk.length
      }
      if (length === 0) return
      const result = inspect(Buffer.concat(parts))
      if (result !== undefined) settle(result)
      else if (length > maxBytes) settle(null)
    }
    const timer = setTimeout(end, timeoutMs)
    connection.on('readable', look).once('end', end).once('close', end).once('error', end)
    look()
  })
}
