// The egress process as one value: the control socket, the sessions, and everything that their connections share.

import type { EgressSettings, HeldRequest } from './control/messages.ts'
import { type ControlServer, serveControl } from './control/server.ts'
import { handleConnection } from './exchange/connection.ts'
import type { ExchangeContext } from './exchange/context.ts'
import { createHeldRequests } from './held-requests.ts'
import { createUpstreams } from './http/upstream.ts'
import { createMetrics } from './metrics.ts'
import { type CompiledPolicy, decideConnection, decideRequest } from './policy/policy.ts'
import { createResolver } from './resolver.ts'
import { createSessions } from './sessions/sessions.ts'
import { createLeafCache } from './tls/leaf.ts'
import { createTrust } from './tls/upstream-tls.ts'

const CHECK_MS = 10_000
/** How long the process waits for a daemon when it has nothing else to do. */
const UNUSED_MS = 60_000

export interface Egress {
  close(): Promise<void>
}

/** Whether a rule allows what a person was asked about. The path is known, the query is not needed. */
function isNowAllowed(policy: CompiledPolicy, { host, port, method, url }: HeldRequest): boolean {
  if (method === null) return decideConnection(policy, { host, port }).kind === 'tcp'
  return decideRequest(policy, { host, port, method, target: new URL(url).pathname }).allowed
}

/** `onShutdown` is called when the daemon asks the process to end, and when nobody uses it any more. */
export async function startEgress(
  socketPath: string,
  onShutdown: () => void,
  onError: (error: unknown, what: string) => void,
): Promise<Egress> {
  let settings: EgressSettings | null = null
  let trust = createTrust([])
  const current = (): EgressSettings => {
    if (settings === null) throw new Error('the egress process has no settings yet')
    return settings
  }
  const resolver = createResolver()
  const metrics = createMetrics()
  const held = createHeldRequests(
    () => current().approvalSeconds,
    request => control.announce({ type: 'held', held: request }),
  )
  const context: ExchangeContext = {
    settings: current,
    resolver,
    metrics,
    held,
    leaves: createLeafCache(),
    upstreams: createUpstreams(() => trust),
    onError,
  }
  const sessions = createSessions({
    resolver,
    settings: current,
    onConnection: (session, connection) => handleConnection(context, session, connection),
    onPolicy: session => held.release(session.id, request => isNowAllowed(session.policy, request)),
    onError,
  })

  const control: ControlServer = await serveControl(socketPath, {
    hello: () => ({ held: held.list() }),
    configure({ settings: next }) {
      settings = next
      trust = createTrust(next.extraRoots)
      return {}
    },
    async put_session({ session }) {
      current()
      await sessions.put(session)
      return {}
    },
    async remove_session({ session }) {
      held.drop(session)
      context.upstreams.closeSession(session)
      await sessions.remove(session)
      return {}
    },
    list_sessions: () => ({
      sessions: sessions
        .all()
        .map(({ id, tunnel, connectionCount }) => ({ id, connected: tunnel.isConnected, connections: connectionCount })),
    }),
    answer_approval({ approval, allowed, scope }) {
      const found = held.list().find(({ id }) => id === approval)
      if (found?.status === 'pending' && scope === 'session') {
        const { host, port, method } = found
        sessions.get(found.sessionId)?.addRule({ host, port, kind: method === null ? 'tcp' : 'http', allowed })
      }
      return { held: held.answer(approval, allowed, scope) }
    },
    metrics: () => ({
      hosts: metrics.hosts(),
      connections: sessions.all().reduce((sum, { connectionCount }) => sum + connectionCount, 0),
    }),
    shutdown() {
      setImmediate(onShutdown)
      return {}
    },
    relay: (id, stream) => sessions.relay(id, stream),
  })

  // A daemon that is gone for good, with all its sandboxes, cannot end this process.
  let usedAt = Date.now()
  const unused = setInterval(() => {
    if (control.isConnected || sessions.all().some(({ tunnel }) => tunnel.isConnected)) usedAt = Date.now()
    else if (Date.now() - usedAt > UNUSED_MS) onShutdown()
  }, CHECK_MS)

  return {
    async close() {
      clearInterval(unused)
      control.close()
      await Promise.all(sessions.all().map(({ id }) => sessions.remove(id)))
      context.upstreams.close()
    },
  }
}
