// A session in the egress process: its settings, its compiled policy, the tunnel to its runner, and its open connections.
import { createConnection } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { LIMITS } from '@sandglass/contract'
import type { NetworkLog } from '../log/network-log.ts'
import { type CompiledPolicy, compilePolicy, decideName, type SessionRule } from '../policy/policy.ts'
import type { Resolver } from '../resolver.ts'
import { secretsNaming } from '../secrets/scope.ts'
import { createSemaphore, type Semaphore } from '../semaphore.ts'
import type { EgressSession, SessionSecret } from '../session.ts'
import { type Announced, type NameAnswer, openTunnel, type Tunnel } from '../tunnel/tunnel.ts'

/** A connection of the sandbox that has been taken. */
export interface ActiveConnection {
  /** Whether the policy allows what the connection carries at this moment. */
  isAllowedBy(policy: CompiledPolicy): boolean
  /** Ends it at once: the program sees a reset. */
  cut(): void
}

export interface LiveSession {
  readonly id: string
  /** As the daemon sent them last. */
  readonly settings: EgressSession
  readonly policy: CompiledPolicy
  /** Secrets whose scopes name this host: the same array until the settings change. */
  secretsFor(host: string): readonly SessionSecret[]
  /** Requests under way. SECURITY: each may open a connection to a server; without a limit one session could take all descriptors. */
  readonly requests: Semaphore
  /** Requests whose body is held in memory. */
  readonly buffered: Semaphore
  readonly log: NetworkLog
  readonly tunnel: Tunnel
  readonly connectionCount: number
  /** Registers a connection until the returned function is called. */
  enter(connection: ActiveConnection): () => void
  /** Aborts when the session ends. */
  readonly ended: AbortSignal
  update(settings: EgressSession): void
  /** Adds a rule that a person's answer gave for the rest of the session. */
  addRule(rule: SessionRule): void
  close(): Promise<void>
}

export interface SessionParts {
  readonly resolver: Resolver
  readonly log: NetworkLog
  /** True if names need not exist here: a proxy or an override leads to their hosts. */
  skipsLookup(host: string): boolean
  /** The carrier that the daemon relays. */
  relayed(): Promise<Duplex>
  /** Resolves when the connection has ended. */
  onConnection(session: LiveSession, connection: Announced): Promise<void>
  /** Called after each change of the policy. */
  onPolicy(session: LiveSession): void
}

const MAX_REQUESTS = 512
const MAX_BUFFERED = 4
/** Hosts whose secrets are remembered. */
const MAX_HOSTS = 1000
/** SECURITY: a runner is hostile; what it announces beyond this is refused. */
const MAX_WAITING = 2 * LIMITS.egress_connections.max
/** How long the entries of the last connections may take when a session ends. */
const LAST_ENTRIES_MS = 1000
/** A carrier has fewer streams than a session may have connections. */
const MAX_ON_CARRIER = 1000

export function openSession(first: EgressSession, parts: SessionParts): LiveSession {
  const { resolver, log } = parts
  const ending = new AbortController()
  const connections = new Set<ActiveConnection>()
  const waiting = new Map<number, Announced>()
  const underWay = new Set<Promise<void>>()
  const extra: SessionRule[] = []
  const { endpoint, token, id } = first
  const mostConnections = endpoint.kind === 'socket' ? LIMITS.egress_connections.max : MAX_ON_CARRIER
  const secretsByHost = new Map<string, readonly SessionSecret[]>()
  let settings = first
  let policy = compile()
  let generation = 1

  function compile(): CompiledPolicy {
    return compilePolicy({ network: settings.network, mode: settings.mode, policies: settings.policies, extra })
  }

  /** SECURITY: connections of a rule that is gone are cut, so that a policy holds from the moment it is changed. */
  function apply(): void {
    policy = compile()
    generation += 1
    tunnel.configure()
    for (const connection of connections) if (!connection.isAllowedBy(policy)) connection.cut()
    parts.onPolicy(live)
  }

  async function resolve(name: string): Promise<NameAnswer> {
    const decided = decideName(policy, name)
    if (decided.answer === 'refused') {
      log.add({ type: 'dns', host: name, reason: 'refused' })
      return decided
    }
    if (parts.skipsLookup(name)) return decided
    const found = await resolver.resolve(id, name)
    if (found.kind === 'found') return decided
    log.add({ type: 'dns', host: name, reason: found.kind === 'not-found' ? 'no such name' : found.reason })
    return { answer: found.kind === 'not-found' ? 'nxdomain' : 'failed' }
  }

  function takeNext(): void {
    for (const next of waiting.values()) {
      if (connections.size >= mostConnections) return
      waiting.delete(next.number)
      const serving = parts.onConnection(live, next)
      underWay.add(serving)
      void serving.finally(() => underWay.delete(serving))
    }
  }

  const tunnel = openTunnel({
    id,
    token,
    mux: endpoint.kind !== 'socket',
    dial: () => (endpoint.kind === 'relay' ? parts.relayed() : dialSocket(endpoint.path)),
    generation: () => generation,
    resolve,
    onConnection(connection) {
      if (waiting.size >= MAX_WAITING) return tunnel.refuse(connection.number)
      waiting.set(connection.number, connection)
      takeNext()
    },
    onGone: number => void waiting.delete(number),
    onBindFailed: (name, port, message) =>
      log.add({ type: 'error', method: 'LISTEN', url: `${name}:${port}`, host: name, port, reason: message }),
  })

  const live: LiveSession = {
    id,
    get settings() {
      return settings
    },
    get policy() {
      return policy
    },
    secretsFor(host) {
      const known = secretsByHost.get(host)
      if (known !== undefined) return known
      const found = secretsNaming(settings.secrets, host)
      if (secretsByHost.size >= MAX_HOSTS) secretsByHost.clear()
      secretsByHost.set(host, found)
      return found
    },
    requests: createSemaphore(MAX_REQUESTS),
    buffered: createSemaphore(MAX_BUFFERED),
    log,
    tunnel,
    get connectionCount() {
      return connections.size
    },
    enter(connection) {
      connections.add(connection)
      return () => {
        connections.delete(connection)
        takeNext()
      }
    },
    ended: ending.signal,
    update(next) {
      settings = next
      secretsByHost.clear()
      apply()
    },
    addRule(rule) {
      extra.push(rule)
      apply()
    },
    async close() {
      ending.abort(new Error('the session has ended'))
      for (const connection of connections) connection.cut()
      tunnel.close()
      // Their entries come when they have ended.
      await Promise.race([Promise.allSettled(underWay), pause(LAST_ENTRIES_MS, undefined, { ref: false })])
      await log.close()
    },
  }
  log.add({ type: 'start' })
  return live
}

function dialSocket(path: string): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ path, allowHalfOpen: true })
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.off('error', reject)
      resolve(socket)
    })
  })
}
