// Turns recorded requests into a policy that allows them.
import { LIMITS, MAX_TCP_RULES, type NetworkEntry, type Policy, type UrlRule } from '@sandglass/contract'
import { bracketed, normaliseHost } from './host.ts'
import { readPath } from './path.ts'

/** A host with more groups of paths gets a rule for all paths. */
const MAX_GROUPS = 8
/** A group with more methods gets a rule for all methods. */
const MAX_METHODS = 5
const LONGEST_PATH = 2048

/**
 * Allows what the entries show as allowed, and little more: paths are grouped by their first segment. The order of the entries does not matter.
 * Hosts with private addresses also need `private`, which no entry tells.
 */
export function suggestPolicy(entries: readonly NetworkEntry[]): Policy {
  const seen: Seen = { paths: new Map(), domains: new Set(), tcp: new Set(), passThrough: new Set() }
  for (const entry of entries) {
    const host = normaliseHost(entry.host ?? '')
    if (entry.decision !== 'allowed' || host === null || entry.port === null) continue
    if (entry.type === 'request') addRequest(seen, host, entry.port, entry)
    if (entry.type === 'connection') addConnection(seen, host, entry.port, entry)
  }
  const hosts = [...seen.paths].map(([host, groups]) => ({ host, groups, isWide: groups.size > MAX_GROUPS || groups.has('') }))
  const wide = hosts.filter(({ isWide }) => isWide).map(({ host }) => bracketed(host))
  const domains = new Set([...wide, ...seen.domains])
  const narrow = hosts.filter(({ host }) => !domains.has(bracketed(host)))
  const rules = narrow.flatMap(({ host, groups }) => [...groups].map(([path, methods]) => urlRule(host, path, methods)))
  return withinLimits({
    include: [],
    domains: [...domains].sort(),
    url_prefixes: rules.sort((a, b) => compare(a.host, b.host) || compare(a.path, b.path)),
    tcp: [...seen.tcp].sort(),
    ports: [],
    private: [],
    pass_through: [...seen.passThrough].sort(),
  })
}

interface Seen {
  /** Host → pattern of a path → methods. The pattern '' stands for all paths. */
  readonly paths: Map<string, Map<string, Set<string>>>
  readonly domains: Set<string>
  readonly tcp: Set<string>
  readonly passThrough: Set<string>
}

function addRequest(seen: Seen, host: string, port: number, { url, method }: NetworkEntry): void {
  // A url_prefixes rule has no port.
  if (port !== 80 && port !== 443) {
    seen.domains.add(`${bracketed(host)}:${port}`)
    return
  }
  const groups = seen.paths.get(host) ?? new Map<string, Set<string>>()
  seen.paths.set(host, groups)
  const group = pathGroup(url ?? '')
  groups.set(group, (groups.get(group) ?? new Set()).add(method ?? ''))
}

function addConnection(seen: Seen, host: string, port: number, { rule, tags }: NetworkEntry): void {
  const isPassThrough = tags.includes('pass_through') || (rule ?? '').includes(': pass_through ')
  if (!isPassThrough) {
    seen.tcp.add(`${bracketed(host)}:${port}`)
    return
  }
  seen.passThrough.add(bracketed(host))
  seen.domains.add(port === 443 ? bracketed(host) : `${bracketed(host)}:${port}`)
}

/** `/first/*` for a longer path, else the path itself; '' if no rule can name it. */
function pathGroup(url: string): string {
  const [, target = ''] = /^\w+:\/\/[^/?#]*([^#]*)/.exec(url) ?? []
  const read = readPath(target.startsWith('/') ? target : `/${target}`)
  if ('reason' in read) return ''
  const first = read.path.indexOf('/', 1)
  const group = first === -1 ? read.path : `${read.path.slice(0, first)}/*`
  return group.length > LONGEST_PATH || !isPlain(group) ? '' : group
}

const isPlain = (path: string): boolean => !/[\p{Cc}\p{Cf}%]/u.test(path)

function urlRule(host: string, path: string, methods: ReadonlySet<string>): UrlRule {
  const all = [...methods].sort()
  const canList = all.length <= MAX_METHODS && all.every(method => /^[A-Z][A-Z-]{0,31}$/.test(method))
  return { host: bracketed(host), path, methods: canList ? all : [] }
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

function withinLimits(policy: Policy): Policy {
  const max = LIMITS.policy_rules.max
  const { domains, url_prefixes, tcp, pass_through } = policy
  if (tcp.length <= MAX_TCP_RULES && [domains, url_prefixes, pass_through].every(list => list.length <= max)) return policy
  return {
    ...policy,
    description: `incomplete: a policy has at most ${max} rules in a list, and ${MAX_TCP_RULES} in tcp`,
    domains: domains.slice(0, max),
    url_prefixes: url_prefixes.slice(0, max),
    tcp: tcp.slice(0, MAX_TCP_RULES),
    pass_through: pass_through.slice(0, max),
  }
}
