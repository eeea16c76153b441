// All sessions of the egress process, as the daemon puts and removes them.
import { chmod } from 'node:fs/promises'
import type { Duplex } from 'node:stream'
import type { EgressSettings } from '../control/messages.ts'
import { openNetworkLog } from '../log/network-log.ts'
import type { Resolver } from '../resolver.ts'
import type { EgressSession } from '../session.ts'
import type { Announced } from '../tunnel/tunnel.ts'
import { type LiveSession, openSession } from './session.ts'

const CONNECT_MS = 5000

export interface Sessions {
  /** Resolves when the runner's endpoint is connected. */
  put(settings: EgressSession): Promise<void>
  remove(id: string): Promise<void>
  get(id: string): LiveSession | undefined
  all(): LiveSession[]
  /** A carrier to the runner of a session, relayed by the daemon. */
  relay(id: string, stream: Duplex): void
}

export interface SessionsOptions {
  readonly resolver: Resolver
  settings(): EgressSettings
  onConnection(session: LiveSession, connection: Announced): Promise<void>
  onPolicy(session: LiveSession): void
  onError(error: unknown, what: string): void
}

export function createSessions(options: SessionsOptions): Sessions {
  const live = new Map<string, LiveSession>()
  const relays = new Map<string, Relays>()
  const relaysOf = (id: string) => {
    const known = relays.get(id) ?? new Relays()
    relays.set(id, known)
    return known
  }

  async function open(settings: EgressSession): Promise<LiveSession> {
    const { id, logFolder } = settings
    await chmod(logFolder, 0o700)
    return openSession(settings, {
      resolver: options.resolver,
      log: openNetworkLog(
        logFolder,
        () => options.settings().logBytes,
        error => options.onError(error, `the network log of ${id}`),
      ),
      skipsLookup: host => leadsElsewhere(options.settings(), host),
      relayed: () => relaysOf(id).next(),
      onConnection: options.onConnection,
      onPolicy: options.onPolicy,
    })
  }

  async function remove(id: string): Promise<void> {
    const session = live.get(id)
    live.delete(id)
    relays.get(id)?.close()
    relays.delete(id)
    await session?.close()
  }

  return {
    async put(settings) {
      const before = live.get(settings.id)
      // A session that was started again has another endpoint or token.
      if (before !== undefined && !isSameMachine(before.settings, settings)) await remove(settings.id)
      const known = live.get(settings.id)
      const session = known ?? (await open(settings))
      live.set(settings.id, session)
      known?.update(settings)
      await deadline(session.tunnel.connected())
    },
    remove,
    get: id => live.get(id),
    all: () => [...live.values()],
    relay: (id, stream) => relaysOf(id).add(stream),
  }
}

/** True if a proxy or a configured address stands for what DNS has for the host. */
const leadsElsewhere = ({ upstreamProxy, overrides }: EgressSettings, host: string): boolean =>
  upstreamProxy !== null || Object.keys(overrides).some(name => name === host || name.startsWith(`${host}:`))

const isSameMachine = (a: EgressSession, b: EgressSession) =>
  a.token === b.token && JSON.stringify(a.endpoint) === JSON.stringify(b.endpoint)

async function deadline(connected: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the runner of the session does not answer on its egress endpoint')), CONNECT_MS)
  })
  try {
    await Promise.race([connected, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Carriers that the daemon has opened for one session. The newest one is used: the daemon opens another when one is lost. */
class Relays {
  #stream: Duplex | null = null
  #waiting: ((stream: Duplex) => void) | null = null

  add(stream: Duplex): void {
    stream.on('error', () => undefined) // the tunnel sees the close
    this.#stream?.destroy()
    this.#stream = stream
    stream.once('close', () => {
      if (this.#stream === stream) this.#stream = null
    })
    this.#give()
  }

  next(): Promise<Duplex> {
    return new Promise(resolve => {
      this.#waiting = resolve
      this.#give()
    })
  }

  close(): void {
    this.#stream?.destroy()
    this.#stream = null
  }

  #give(): void {
    const [stream, waiting] = [this.#stream, this.#waiting]
    if (stream === null || waiting === null) return
    this.#stream = null
    this.#waiting = null
    waiting(stream)
  }
}
