// The reply to a request that is not sent: JSON that says what was refused and what to do.
import type { Exchange, RequestHead } from '../http/message.ts'
import { bracketed } from '../policy/policy.ts'
import type { EgressSession } from '../session.ts'

/** The request as a URL, without user information and, unless asked for, without its query. */
export function urlOf({ scheme, host, port, target }: RequestHead, withQuery = true): string {
  const isDefault = port === (scheme === 'https' ? 443 : 80)
  const path = withQuery ? target : target.replace(/\?.*/s, '')
  return `${scheme}://${bracketed(host)}${isDefault ? '' : `:${port}`}${path === '*' ? '/*' : path}`
}

/** The URL of a connection that is no HTTP. */
export const tcpUrl = (host: string, port: number): string => `tcp://${bracketed(host)}:${port}`

export async function replyBlocked(exchange: Exchange, reason: string, { name, policies }: EgressSession): Promise<void> {
  const { head } = exchange
  await replyJson(exchange, 403, {
    error: 'blocked_by_network_allowlist',
    host: head.host,
    path: head.target.replace(/\?.*/s, ''),
    method: head.method,
    message: `The network policy of this sandbox does not allow ${head.method} ${urlOf(head, false)}: ${reason}. To get access, ask the person who runs the sandbox to allow it in a policy, for example with: sandglass policy use ${[name, ...policies.map(policy => policy.name)].join(' ')} NAME`,
  })
}

export async function replyFailed(exchange: Exchange, status: number, message: string): Promise<void> {
  const { host, method } = exchange.head
  await replyJson(exchange, status, { error: 'request_failed', host, method, message })
}

async function replyJson(exchange: Exchange, status: number, value: object): Promise<void> {
  const body = Buffer.from(`${JSON.stringify(value)}\n`)
  await exchange.respond(
    {
      status,
      headers: [
        ['content-type', 'application/json'],
        ['content-length', String(body.length)],
        ['cache-control', 'no-store'],
      ],
    },
    body,
  )
}
