// The client of the multiplexer in runner/PROTOCOL.md: many streams on one carrier, for carriers on which dialling is slow.
import type { Duplex } from 'node:stream'
import { crc32 } from 'node:zlib'
import { CREDIT, DATA, END, FrameParser, frameHeader, MAX_PAYLOAD, OPEN, RESET } from './mux-frames.ts'
import { MuxStream } from './mux-stream.ts'
import { ProtocolError } from './wire.ts'

const MAX_STREAMS = 1024
const MAX_STREAM_NUMBER = 0xffff_ffff

export interface Mux {
  /** Opens a stream without waiting: the runner answers on it or resets it. */
  open(): Duplex
  /** Closes the carrier and all streams. */
  close(error?: Error): void
}

/** Takes over the carrier: nothing else may read or write it. `onClose` is called once, when the carrier is closed. */
export function openMux(carrier: Duplex, onClose: () => void): Mux {
  const streams = new Map<number, MuxStream>()
  // Streams with unsent data while the carrier is full, in the order of their requests.
  const waiting = new Set<MuxStream>()
  let lastNumber = -1

  const parser = new FrameParser({
    data: (number, payload) => find(number)?.receive(payload),
    credit: (number, bytes) => find(number)?.addCredit(bytes),
    end: number => find(number)?.receiveEnd(),
    reset: number => {
      if (number === 0) throw new ProtocolError('the runner ended the carrier')
      find(number)?.receiveReset()
    },
  })

  carrier.on('data', (chunk: Buffer) => {
    try {
      parser.push(chunk)
    } catch (error) {
      carrier.destroy(error as Error)
    }
  })
  carrier.on('drain', () => {
    for (const stream of waiting) {
      if (carrier.writableNeedDrain) return
      waiting.delete(stream)
      stream.flush()
    }
  })
  carrier.on('error', () => undefined) // 'close' follows with carrier.errored set
  carrier.once('end', () => carrier.destroy())
  carrier.once('close', () => {
    for (const stream of streams.values()) stream.destroy(carrier.errored ?? new Error('connection closed'))
    streams.clear()
    onClose()
  })

  // Frames for a stream that this side has closed are dropped.
  function find(number: number): MuxStream | undefined {
    if (number > lastNumber) throw new ProtocolError('a frame for a stream that was never opened')
    return streams.get(number)
  }

  function send(kind: number, number: number, payload?: Uint8Array): void {
    if (carrier.destroyed) return
    if (payload === undefined) {
      carrier.write(frameHeader(kind, number, 0, 0))
      return
    }
    carrier.cork()
    carrier.write(frameHeader(kind, number, payload.length, crc32(payload)))
    carrier.write(payload)
    carrier.uncork()
  }

  return {
    open() {
      if (carrier.destroyed) throw new Error('connection closed')
      if (streams.size >= MAX_STREAMS) throw new Error(`more than ${MAX_STREAMS} streams at once`)
      const number = lastNumber < 0 ? 1 : lastNumber + 2
      if (number > MAX_STREAM_NUMBER) throw new Error('stream numbers are used up')
      lastNumber = number
      const stream: MuxStream = new MuxStream({
        sendData: payload => send(DATA, number, payload),
        sendCredit: bytes => {
          const payload = Buffer.allocUnsafe(4)
          payload.writeUInt32BE(bytes)
          send(CREDIT, number, payload)
        },
        sendEnd: () => send(END, number),
        sendReset: () => send(RESET, number),
        isFull: () => carrier.writableNeedDrain,
        waitForCarrier: () => waiting.add(stream),
        gone: () => {
          waiting.delete(stream)
          streams.delete(number)
        },
        maxPayload: MAX_PAYLOAD,
      })
      streams.set(number, stream)
      send(OPEN, number)
      return stream
    },
    close(error) {
      carrier.destroy(error)
    },
  }
}
