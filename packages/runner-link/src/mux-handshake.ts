// The handshake on a multiplexed carrier. The carrier may be a device without connections, such as a virtio port: it still contains bytes of an
// earlier client in both directions, and the runner cannot see that the client has changed. So the hello carries a nonce. The answer repeats it, and
// the bytes for this client begin after that answer.
import { randomBytes } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { HEADER_BYTES, MAX_PAYLOAD } from './mux-frames.ts'
import type { Fields, Message } from './wire.ts'
import { encodeMessage, parseLine } from './wire.ts'

/** A device loses bytes that are written before the runner opens it. */
const RETRY_MS = 2000
/** The answer is far shorter; longer lines are skipped. */
const MAX_LINE_BYTES = 4096
const NEWLINE = 0x0a
/** Completes a frame that an earlier client sent in part, with a wrong checksum, so that the runner waits for a hello again. */
const FILLER = Buffer.concat([Buffer.alloc(MAX_PAYLOAD + HEADER_BYTES), Buffer.from([NEWLINE])])

/** Resolves with the answer and drops all bytes before it. Null when the device ends first. */
export async function muxHandshake(duplex: Duplex, hello: Fields & { type: string }): Promise<Message | null> {
  let nonce = ''
  const sayHello = () => {
    // The last hello is still unsent.
    if (duplex.writableLength > 0) return
    nonce = randomBytes(16).toString('hex')
    duplex.write(FILLER)
    duplex.write(encodeMessage({ ...hello, nonce }))
  }
  sayHello()
  const retry = setInterval(sayHello, RETRY_MS)
  try {
    // A terminal that is not yet in raw mode echoes the hello.
    return await findLine(duplex, message => message.nonce === nonce && message.type !== 'hello')
  } finally {
    clearInterval(retry)
  }
}

/** Reads up to the end of the wanted line; later bytes stay in the duplex. */
function findLine(duplex: Duplex, isWanted: (message: Message) => boolean): Promise<Message | null> {
  const { promise, resolve, reject } = Promise.withResolvers<Message | null>()
  let line: Buffer = Buffer.alloc(0)
  const onReadable = () => {
    for (let chunk: Buffer | null = duplex.read(); chunk !== null; chunk = duplex.read()) {
      for (let at = 0; at < chunk.length; ) {
        const end = chunk.indexOf(NEWLINE, at)
        const part = chunk.subarray(at, end === -1 ? chunk.length : end)
        // One byte more than allowed marks the line as too long; the rest is not buffered.
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
  duplex.on('error', reject) // stays: an error event without a listener would end the daemon
  return promise.finally(() => {
    duplex.off('readable', onReadable).off('end', onEnd).off('close', onClose)
  })
}
