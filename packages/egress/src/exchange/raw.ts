// A connection whose bytes are forwarded unopened: a `tcp` rule, or TLS that passes through.
import type { Duplex } from 'node:stream'
import { splice } from '../http/splice.ts'
import { dial } from '../http/upstream/dial.ts'
import { decideConnection } from '../policy/policy.ts'
import { tcpUrl } from './blocked.ts'
import type { Serving } from './connection.ts'
import { beginDecision } from './record.ts'
import { findRoute } from './route.ts'

export async function forwardRaw(
  serving: Serving,
  stream: Duplex,
  { host, port }: { host: string; port: number },
  { rule, tags }: { readonly rule: string; readonly tags: readonly ('observed' | 'approved' | 'pass_through')[] },
): Promise<void> {
  const { context, session } = serving
  const log = beginDecision(context, session, {
    type: 'connection',
    method: 'CONNECT',
    url: tcpUrl(host, port),
    host,
    port,
    rule,
    tags: [...tags],
  })
  const route = await findRoute(context, session, host, port)
  if ('refused' in route) {
    log.log(route.isFailure ? 'error' : 'blocked', { reason: route.refused })
    return serving.reset()
  }
  using carried = serving.carry(policy => {
    const { kind } = decideConnection(policy, { host, port })
    return kind === 'tcp' || kind === 'pass_through' || (tags.includes('approved') && kind === 'ask')
  })
  if (!carried.isAllowed) {
    log.log('blocked', { reason: 'the policy has changed' })
    return serving.reset()
  }
  let upstream: Duplex
  try {
    upstream = await dial(route, session.ended)
  } catch (error) {
    log.log('error', { reason: error instanceof Error ? error.message : String(error) })
    return serving.reset()
  }
  const { bytesToServer, bytesToClient, wasClean } = await splice(stream, upstream)
  if (!wasClean) serving.reset()
  log.log('allowed', { bytes_sent: bytesToServer, bytes_received: bytesToClient })
}
