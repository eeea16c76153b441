// The connection to the egress endpoint of one runner (runner/PROTOCOL.md, "Egress"). The runner announces names that programs ask for and connections that
// they open; this side answers names and takes or refuses connections. A connection that is lost is opened again until `close`.
import type { Duplex } from 'node:stream'
import { openLink, type RunnerLink } from '@sandglass/runner-link/link'
import type { RunnerStream } from '@sandglass/runner-link/stream'
import type { Message } from '@sandglass/runner-link/wire'
import { z } from 'zod'

/** A connection that a program in the sandbox has opened. */
export interface Announced {
  readonly number: number
  /** The name whose address was dialled; '' for the refused address and the proxy ports. */
  readonly name: string
  readonly port: number
  readonly via: 'name' | 'refused' | 'http_proxy' | 'socks'
}

export type NameAnswer =
  | { readonly answer: 'address'; readonly ports: readonly number[] }
  | { readonly answer: 'refused' | 'nxdomain' | 'failed' }

export interface TunnelOptions {
  readonly id: string
  readonly token: string
  readonly mux: boolean
  dial(): Promise<Duplex>
  generation(): number
  resolve(name: string): Promise<NameAnswer>
  /** Called for each announced connection; `take` or `refuse` answers it. */
  onConnection(connection: Announced): void
  onGone(number: number): void
  onBindFailed(name: string, port: number, message: string): void
}

export interface Tunnel {
  /** Resolves once the runner has accepted the control stream. */
  connected(): Promise<void>
  readonly isConnected: boolean
  /** Tells the runner that its answers of names are out of date. */
  configure(): void
  take(number: number): Promise<Duplex>
  /** Resets the program's connection, whether it was taken or not. */
  refuse(number: number): void
  close(): void
}

const FIRST_RETRY_MS = 50
const MAX_RETRY_MS = 2000
/** SECURITY: a runner is hostile; names under way are bounded so that it cannot fill this process with lookups. */
const MAX_QUERIES = 256

const Int = z.int().min(0)
const FromRunner = z.discriminatedUnion('type', [
  z.object({ type: z.literal('resolve'), query: Int, name: z.string().max(255) }),
  z.object({
    type: z.literal('connection'),
    connection: Int,
    name: z.string().max(255),
    port: Int.max(65_535),
    via: z.enum(['name', 'refused', 'http_proxy', 'socks']),
  }),
  z.object({ type: z.literal('closed'), connection: Int }),
  z.object({ type: z.literal('bind_failed'), name: z.string().max(255), port: Int.max(65_535), message: z.string() }),
])

export function openTunnel(options: TunnelOptions): Tunnel {
  const { id, token, mux } = options
  const link: RunnerLink = openLink({ id, token, mux, dial: () => options.dial() })
  const closing = new AbortController()
  let control: RunnerStream | null = null
  let queries = 0
  let first = Promise.withResolvers<void>()
  first.promise.catch(() => undefined) // nobody may be waiting for it

  const send = async (message: { type: string; [field: string]: unknown }): Promise<void> => {
    // A message that is lost with the connection is not needed: the runner announces again what still waits.
    await control?.send(message).catch(() => undefined)
  }

  async function answer(query: number, name: string): Promise<void> {
    const generation = options.generation()
    // One that is not answered times out in the sandbox.
    if (queries >= MAX_QUERIES) return
    queries += 1
    try {
      await send({ type: 'resolved', query, generation, ...(await options.resolve(name)) })
    } finally {
      queries -= 1
    }
  }

  function receive(message: Message): void {
    const parsed = FromRunner.safeParse(message)
    if (!parsed.success) throw new Error(`the runner of ${id} violates the egress protocol`)
    const { data } = parsed
    if (data.type === 'resolve') void answer(data.query, data.name)
    else if (data.type === 'connection')
      options.onConnection({ number: data.connection, name: data.name, port: data.port, via: data.via })
    else if (data.type === 'closed') options.onGone(data.connection)
    else options.onBindFailed(data.name, data.port, data.message.slice(0, 200))
  }

  /** Returns when the control stream has ended. */
  async function serve(): Promise<void> {
    const stream = await link.stream('control', {}, { signal: closing.signal })
    control = stream
    try {
      await stream.send({ type: 'config', generation: options.generation() })
      first.resolve()
      for await (const { message } of stream) receive(message)
    } finally {
      control = null
      stream.close()
    }
  }

  async function run(): Promise<void> {
    for (let wait = FIRST_RETRY_MS; !closing.signal.aborted; wait = Math.min(wait * 2, MAX_RETRY_MS)) {
      const begun = Date.now()
      await serve().catch(error => {
        first.reject(error)
      })
      if (Date.now() - begun > MAX_RETRY_MS) wait = FIRST_RETRY_MS
      if (closing.signal.aborted) return
      first = Promise.withResolvers<void>()
      first.promise.catch(() => undefined) // nobody may be waiting for it
      await pause(wait, closing.signal)
    }
  }
  void run()

  return {
    connected: async () => {
      if (control === null) await first.promise
    },
    get isConnected() {
      return control !== null
    },
    configure: () => void send({ type: 'config', generation: options.generation() }),
    take: async number => (await link.stream('take', { connection: number }, { signal: closing.signal })).raw(),
    refuse: number => void send({ type: 'refuse', connection: number }),
    close() {
      closing.abort(new Error('the session has ended'))
      control?.close()
      link.close()
    },
  }
}

const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>(resolve => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done)
  })
