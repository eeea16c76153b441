// Opens connections to the runner and completes the hello: one dial per connection, or streams of one multiplexed carrier.
import type { Duplex } from 'node:stream'
import type { Mux } from './mux.ts'
import { openMux } from './mux.ts'
import { muxHandshake } from './mux-handshake.ts'
import type { Message } from './wire.ts'
import { encodeMessage, MessageReader, ProtocolError } from './wire.ts'

const PROTOCOL_VERSION = 1

export interface Ready {
  readonly bootId: string
  readonly runner: string
  readonly pid: number
}

export interface Connection {
  readonly duplex: Duplex
  readonly reader: MessageReader
}

export interface Connector {
  /** `first` is sent together with the hello, so that a stream costs one round trip. */
  open(first: string): Promise<Connection>
  close(): void
}

export interface ConnectorOptions {
  dial(): Promise<Duplex>
  token: string
  mux: boolean
  helloTimeoutMs: number
  onReady(ready: Ready): void
}

export function createConnector(options: ConnectorOptions): Connector {
  return options.mux ? muxConnector(options) : dialConnector(options)
}

function dialConnector({ dial, token, helloTimeoutMs, onReady }: ConnectorOptions): Connector {
  const hello = encodeMessage({ type: 'hello', version: PROTOCOL_VERSION, token })
  return {
    async open(first) {
      const duplex = await dial()
      const reader = new MessageReader(duplex)
      onReady(
        await handshake(duplex, helloTimeoutMs, () => {
          duplex.write(hello + first)
          return reader.next()
        }),
      )
      return { duplex, reader }
    },
    close() {
      // Each connection belongs to the caller that opened it.
    },
  }
}

function muxConnector({ dial, token, helloTimeoutMs, onReady }: ConnectorOptions): Connector {
  const hello = { type: 'hello', version: PROTOCOL_VERSION, token, mux: true }
  let carrier: Promise<Mux> | undefined
  let isClosed = false

  async function openCarrier(): Promise<Mux> {
    const duplex = await dial()
    onReady(await handshake(duplex, helloTimeoutMs, () => muxHandshake(duplex, hello)))
    const mux = openMux(duplex, () => {
      carrier = undefined
    })
    if (isClosed) mux.close()
    return mux
  }

  return {
    async open(first) {
      carrier ??= openCarrier().catch(error => {
        carrier = undefined
        throw error
      })
      const duplex = (await carrier).open()
      const reader = new MessageReader(duplex)
      if (first !== '') duplex.write(first)
      return { duplex, reader }
    },
    close() {
      isClosed = true
      carrier?.then(
        mux => mux.close(),
        () => undefined, // the caller of open gets the error
      )
    },
  }
}

/** Waits for the ready line. Destroys the duplex on a timeout or a refusal. */
async function handshake(duplex: Duplex, timeoutMs: number, begin: () => Promise<Message | null>): Promise<Ready> {
  const timer = setTimeout(() => duplex.destroy(new Error('the runner did not answer the hello')), timeoutMs)
  try {
    return parseReady(await begin())
  } catch (error) {
    duplex.destroy()
    throw error
  } finally {
    clearTimeout(timer)
  }
}

function parseReady(message: Message | null): Ready {
  if (message === null) throw new ProtocolError('the runner closed the connection instead of answering the hello')
  if (message.type === 'error') throw new Error(`the runner refused the hello: ${String(message.code)}`)
  const { type, version, boot_id, runner, pid } = message
  if (type !== 'ready' || version !== PROTOCOL_VERSION) throw new ProtocolError('the answer to the hello is not the ready line')
  if (typeof boot_id !== 'string' || typeof runner !== 'string' || typeof pid !== 'number')
    throw new ProtocolError('the ready line lacks a field')
  return { bootId: boot_id, runner, pid }
}
