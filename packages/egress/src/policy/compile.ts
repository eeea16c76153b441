// Turns the policies of a session into the form that decisions are made from.
import { type PolicyMode, splitPort, type UrlRule } from '@sandglass/contract'
import type { NamedPolicy } from '../session.ts'
import { bracketed, normaliseHost } from './host.ts'
import { type HostIndex, indexHosts } from './host-index.ts'

/** The answer of a person for the rest of the session. */
export interface SessionRule {
  readonly host: string
  readonly port: number
  readonly kind: 'http' | 'tcp'
  readonly allowed: boolean
}

export interface PolicyInput {
  readonly network: 'allowlist' | 'nat'
  /** Instead of the modes of the policies. */
  readonly mode: PolicyMode | null
  readonly policies: readonly NamedPolicy[]
  readonly extra?: readonly SessionRule[]
}

export interface HttpRule {
  /** For logs and replies. */
  readonly text: string
  readonly ports: ReadonlySet<number>
  /** Pattern; null: every path. */
  readonly path: string | null
  /** Null: every method. */
  readonly methods: ReadonlySet<string> | null
  readonly graphql: NonNullable<UrlRule['graphql']> | null
}

export interface TcpRule {
  readonly text: string
  readonly port: number
}

export interface CompiledPolicy {
  readonly network: 'allowlist' | 'nat'
  readonly mode: PolicyMode
  readonly http: HostIndex<HttpRule>
  readonly tcp: HostIndex<TcpRule>
  /** Texts of pass_through entries. */
  readonly passThrough: HostIndex<string>
  /** Normalised hosts and addresses. */
  readonly privateHosts: ReadonlySet<string>
  /** Ports on which HTTP and TLS are expected from any host: 80, 443 and `ports` of all policies. */
  readonly webPorts: ReadonlySet<number>
  /** What a person has refused, as `deniedKey` writes it. */
  readonly denied: ReadonlySet<string>
}

const WEB_PORTS = [80, 443]
/** The strictest first. */
const STRICTNESS = ['enforce', 'ask', 'observe'] as const

export function compilePolicy(input: PolicyInput): CompiledPolicy {
  const { policies, extra = [] } = input
  const lists = policies.map(({ policy }) => policy)
  return {
    network: input.network,
    mode: input.mode ?? STRICTNESS.find(mode => lists.some(policy => policy.mode === mode)) ?? 'enforce',
    http: indexHosts([
      ...policies.flatMap(httpRules),
      ...extra.filter(rule => rule.kind === 'http' && rule.allowed).map(approvedHttp),
    ]),
    tcp: indexHosts([
      ...policies.flatMap(tcpRules),
      ...extra.filter(rule => rule.kind === 'tcp' && rule.allowed).map(approvedTcp),
    ]),
    passThrough: indexHosts(
      policies.flatMap(({ name, policy }) => policy.pass_through.map(host => [host, `${name}: pass_through ${host}`] as const)),
    ),
    privateHosts: new Set(lists.flatMap(policy => policy.private).flatMap(host => normaliseHost(host) ?? [])),
    webPorts: new Set([...WEB_PORTS, ...lists.flatMap(policy => policy.ports)]),
    denied: new Set(extra.filter(rule => !rule.allowed).map(deniedKey)),
  }
}

export const deniedKey = ({ kind, host, port }: Pick<SessionRule, 'kind' | 'host' | 'port'>): string => `${kind} ${host} ${port}`

/** True for a rule that sets no condition on the requests to its hosts. */
export const isUnconditional = (rule: HttpRule): boolean =>
  (rule.path === null || rule.path === '*' || rule.path === '/*') && rule.methods === null && rule.graphql === null

type Entry<Value> = readonly [pattern: string, value: Value]

/** SECURITY: `ports` belongs to the rules of its own policy. Otherwise a policy that adds a port would open it on the hosts of all others. */
function httpRules({ name, policy }: NamedPolicy): Entry<HttpRule>[] {
  const ports = new Set([...WEB_PORTS, ...policy.ports])
  const domains = policy.domains.map((text): Entry<HttpRule> => {
    const { host, port } = splitHost(text)
    const rule = { text: `${name}: domains ${text}`, path: null, methods: null, graphql: null }
    return [host, { ...rule, ports: port === null ? ports : new Set([port]) }]
  })
  return [...domains, ...policy.url_prefixes.map((rule): Entry<HttpRule> => [rule.host, urlRule(name, rule, ports)])]
}

function urlRule(name: string, { host, path, methods, graphql }: UrlRule, ports: ReadonlySet<number>): HttpRule {
  const kinds = graphql === undefined ? [] : [`graphql ${graphqlKinds(graphql).join(',')}`.trim()]
  return {
    text: `${name}: url_prefixes ${[...(methods.length === 0 ? [] : [methods.join(',')]), `${host}${path}`, ...kinds].join(' ')}`,
    ports,
    path: path === '' ? null : path,
    methods: methods.length === 0 ? null : new Set(methods),
    graphql: graphql ?? null,
  }
}

/** Names of the allowed kinds of operations. */
export function graphqlKinds(rule: NonNullable<UrlRule['graphql']>): string[] {
  return (['queries', 'mutations', 'subscriptions'] as const).filter(kind => rule[kind])
}

function tcpRules({ name, policy }: NamedPolicy): Entry<TcpRule>[] {
  return policy.tcp.flatMap(text => {
    const { host, port } = splitHost(text)
    return port === null ? [] : [[host, { text: `${name}: tcp ${text}`, port }] as const]
  })
}

function approvedHttp({ host, port }: SessionRule): Entry<HttpRule> {
  const text = `session: approved ${bracketed(host)}:${port}`
  return [host, { text, ports: new Set([port]), path: null, methods: null, graphql: null }]
}

function approvedTcp({ host, port }: SessionRule): Entry<TcpRule> {
  return [host, { text: `session: approved tcp ${bracketed(host)}:${port}`, port }]
}

function splitHost(rule: string): { host: string; port: number | null } {
  const [host, port] = splitPort(rule)
  return { host, port: port === null ? null : Number(port) }
}
