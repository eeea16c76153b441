// Begins on the carrier of many streams. It may be a device without connections, such as a virtio port or an attached stdin and stdout:
// what an earlier client left in it, in either direction, is still there, and nothing tells the runner that this client is another one. So the
// hello carries a nonce, and the answer to it, which no older byte can contain, is where this client's bytes begin.
import { randomBytes } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { HEADER_BYTES, MAX_PAYLOAD } from './mux-frames.ts'
import type { Fields, Message } from './wire.ts'
import { encodeMessage, parseLine } from './wire.ts'

/** A device loses what comes before the runner has opened it. */
const RETRY_MS = 2000
/** Longer lines are noise: the answer is far shorter. */
const MAX_LINE_BYTES = 4096
const NEWLINE = 0x0a
/** Completes any frame that an earlier client has left half sent, wrongly, so that the runner listens for a hello again. */
const FILLER = Buffer.concat([Buffer.alloc(MAX_PAYLOAD + HEADER_BYTES), Buffer.from([NEWLINE])])

/** Resolves with the answer, and with every byte before it thrown away. Null when the device ends first. */
export async function muxHandshake(duplex: Duplex, hello: Fields & { type: string }): Promise<Message | null> {
  let nonce = ''
  const sayHello = () => {
    // What still waits to be sent needs no repetition.
    if (duplex.writableLength > 0) return
    nonce = randomBytes(16).toString('hex')
    duplex.write(FILLER)
    duplex.write(encodeMessage({ ...hello, nonce }))
  }
  sayHello()
  const retry = setInterval(sayHello, RETRY_MS)
  try {
    // A terminal that is not raw yet echoes the hello itself.
    return await findLine(duplex, message => message.nonce === nonce && message.type !== 'hello')
  } finally {
    clearInterval(retry)
  }
}

/** Reads up to the end of the line that is wanted; what follows it stays in the duplex. */
function findLine(duplex: Duplex, isWanted: (message: Message) => boolean): Promise<Message | null> {
  const { promise, resolve, reject } = Promise.withResolvers<Message | null>()
  let line: Buffer = Buffer.alloc(0)
  const onReadable = () => {
    for (let chunk: Buffer | null = duplex.read(); chunk !== null; chunk = duplex.read()) {
      for (let at = 0; at < chunk.length; ) {
        const end = chunk.indexOf(NEWLINE, at)
        const part = chunk.subarray(at, end === -1 ? chunk.length : end)
        // One byte more than is allowed marks a line as too long; the rest of it need not be kept.
        line = Buffer.concat([line, part.subarray(0, MAX_LINE_BYTES + 1 - line.length)])
        if (end === -1) break
        const message = line.length > MAX_LINE_BYTES ? null : parseLine(line)
        line = Buffer.alloc(0)
        at = end + 1
        if (message === null || !isWanted(message)) continue
        if (at < chunk.length) duplex.unshift(chunk.subarray(at))
        return resolve(message)
      }
    }
  }
  const onEnd = () => resolve(null)
  const onClose = () => reject(duplex.errored ?? new Error('connection closed'))
  duplex.on('readable', onReadable)
  duplex.once('end', onEnd)
  duplex.once('close', onClose)
  duplex.on('error', reject) // stays: an error with nobody listening would end the daemon
  return promise.finally(() => {
    duplex.off('readable', onReadable).off('end', onEnd).off('close', onClose)
  })
}
