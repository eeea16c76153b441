// Lines of JSON on a socket, both ways. A line that is too long or is not JSON ends the connection.
import type { Socket } from 'node:net'
import { MAX_LINE_BYTES } from './messages.ts'

const NEWLINE = 0x0a

/** Calls `onLine` for each line until it returns false: the socket then belongs to the caller, with what follows the line put back. */
export function readLines(socket: Socket, onLine: (value: unknown) => boolean): void {
  let parts: Buffer[] = []
  let length = 0
  const take = (chunk: Buffer) => {
    let rest = chunk
    for (let end = rest.indexOf(NEWLINE); end !== -1; end = rest.indexOf(NEWLINE)) {
      const line = Buffer.concat([...parts, rest.subarray(0, end)])
      parts = []
      length = 0
      rest = rest.subarray(end + 1)
      if (!accept(line)) {
        socket.off('data', take)
        socket.pause()
        if (rest.length > 0) socket.unshift(rest)
        return
      }
    }
    parts.push(rest)
    length += rest.length
    if (length > MAX_LINE_BYTES) socket.destroy(new Error('a line is too long'))
  }
  const accept = (line: Buffer): boolean => {
    try {
      return onLine(JSON.parse(line.toString('utf8')))
    } catch (error) {
      socket.destroy(error instanceof Error ? error : new Error(String(error)))
      return true
    }
  }
  socket.on('data', take)
}

export function writeLine(socket: Socket, value: object): void {
  if (!socket.destroyed) socket.write(`${JSON.stringify(value)}\n`)
}
