// What a policy says about a URL, for people who write policies.
import type { CompiledPolicy } from './compile.ts'
import { decideConnection } from './decide-connection.ts'
import { decideRequest } from './decide-request.ts'
import { readGraphql } from './graphql/graphql.ts'
import { normaliseHost } from './host.ts'

export interface UrlCheck {
  readonly allowed: boolean
  /** The rule that allows it; null for none. */
  readonly rule: string | null
  readonly reason: string
}

const PORTS: Readonly<Record<string, number>> = { http: 80, https: 443, ws: 80, wss: 443 }
const URL_PARTS = /^(https?|wss?|tcp):\/\/(\[[^\]]*\]|[^/?#:@]*)(?::(\d{1,5}))?([/?][^#]*)?$/i

/**
 * `http`, `https`, `ws`, `wss`, or `tcp://host:port`. The URL is taken as it is written: unlike a browser, this does not turn 0x7f.1 into
 * 127.0.0.1, because a program in the sandbox need not do so either.
 */
export function checkUrl(policy: CompiledPolicy, url: string, method: string): UrlCheck {
  const [, scheme = '', hostText = '', portText, rest = ''] = URL_PARTS.exec(url) ?? []
  if (scheme === '') return refused('not a URL of http, https, ws, wss or tcp, or it has user information')
  const host = normaliseHost(hostText)
  const port = portText === undefined ? PORTS[scheme.toLowerCase()] : Number(portText)
  if (host === null) return refused('the host is not a valid host name or IP address; other characters than ASCII need punycode')
  if (port === undefined || port < 1 || port > 65_535) return refused('the URL needs a port from 1 to 65535')
  const connection = decideConnection(policy, { host, port })
  if (connection.kind === 'refused') return refused(connection.reason)
  if (connection.kind === 'tcp')
    return { allowed: true, rule: connection.rule, reason: `allowed by ${connection.rule}; not inspected` }
  if (scheme.toLowerCase() === 'tcp') {
    return refused(
      connection.kind === 'ask'
        ? `${connection.reason}; a person is asked`
        : 'only HTTP and TLS are allowed here; TCP needs a tcp rule',
    )
  }
  if (connection.kind === 'pass_through' && /^(https|wss)$/i.test(scheme)) {
    return { allowed: true, rule: connection.rule, reason: `allowed by ${connection.rule}; TLS is not opened` }
  }
  return checkRequest(policy, { host, port, method, target: rest.startsWith('/') ? rest : `/${rest}` })
}

const refused = (reason: string): UrlCheck => ({ allowed: false, rule: null, reason })

function checkRequest(policy: CompiledPolicy, request: { host: string; port: number; method: string; target: string }): UrlCheck {
  const first = decideRequest(policy, request)
  const hasQuery = first.needsGraphql === true && request.method === 'GET'
  const graphql = hasQuery ? readGraphql({ ...request, headers: [], body: new Uint8Array() }) : undefined
  const { allowed, rule, reason, outcome } = graphql === undefined ? first : decideRequest(policy, { ...request, graphql })
  return { allowed, rule, reason: outcome === 'ask' ? `${reason}; a person is asked` : reason }
}
