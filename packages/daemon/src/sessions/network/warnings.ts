// What will not work in a session as it is set up. Nothing here is refused: policies and secrets may change while the session runs.
import { isFiltered, type SecretSettings, splitPort } from '@sandglass/contract'
import { compilePolicy, hasWildcard, normaliseHost } from '@sandglass/egress/policy'
import type { NamedPolicy } from '@sandglass/egress/session'
import { resolvePolicies } from '../../policies/named.ts'
import { settingsByName } from '../../secrets/session-secrets.ts'
import { variablesOf } from '../../secrets/settings.ts'
import type { SessionContext } from '../context.ts'
import type { SessionRecord } from '../session-record.ts'
import { missingKeys } from './session-agents.ts'

type Described = Pick<SessionRecord, 'network' | 'policies' | 'policy_mode' | 'secrets' | 'agents' | 'env_names'>

export async function warningsOf(context: SessionContext, session: Described): Promise<string[]> {
  if (session.secrets.length === 0 && session.agents.length === 0 && !isFiltered(session.network)) return []
  const policies = await resolvePolicies(context.store, session.policies)
  const settings = await settingsByName(context, session.secrets)
  const removed = session.secrets.filter(({ name }) => !settings.has(name))
  const given = new Set([...settings].flatMap(([name, secret]) => variablesOf(name, secret)))
  return [
    ...missingKeys(session, variable => given.has(variable)),
    ...openMode(session, policies),
    ...removed.map(({ name }) => `the secret ${name} was removed: calls that use it will fail`),
    ...emptyAllowlist(session),
    ...[...settings].flatMap(([name, secret]) => [
      ...unreachable(session, policies, name, secret),
      ...overridden(session, settings, name, secret),
    ]),
  ]
}

function openMode({ network, policy_mode }: Described, policies: readonly NamedPolicy[]): string[] {
  if (network !== 'allowlist' || modeOf(policies, policy_mode) !== 'observe') return []
  return ['the mode is observe: the session can reach every public host, and the network log records it']
}

function emptyAllowlist({ network, policies, policy_mode }: Described): string[] {
  const isEmpty = network === 'allowlist' && policies.length === 0 && modeOf([], policy_mode) === 'enforce'
  return isEmpty ? ['the session has network allowlist and no policy: it can reach nothing'] : []
}

function unreachable(
  { network, policy_mode }: Described,
  policies: readonly NamedPolicy[],
  name: string,
  { scopes }: SecretSettings,
): string[] {
  if (!isFiltered(network))
    return [`the network is ${network}: the session sees a surrogate of the secret ${name}, and calls that use it will fail`]
  if (network === 'nat' || modeOf(policies, policy_mode) !== 'enforce') return []
  const hosts = scopes.map(hostOf)
  if (hosts.some(host => rulesOf(policies).some(rule => canOverlap(rule, host)))) return []
  return [`no policy of the session allows a host of the secret ${name} (${hosts.join(', ')}): calls that use it will fail`]
}

function overridden(
  { env_names }: Described,
  all: ReadonlyMap<string, SecretSettings>,
  name: string,
  settings: SecretSettings,
): string[] {
  const variables = variablesOf(name, settings)
  const plain = variables.filter(variable => env_names.includes(variable))
  const signing = [...all].find(([, other]) => other.kind === 'aws' && settings.kind === 'masked')
  const taken = signing ? variables.filter(variable => variablesOf(...signing).includes(variable)) : []
  return [
    ...plain.map(variable => `the variable ${variable} has the surrogate of the secret ${name}, not the value in env`),
    ...taken.map(variable => `the variable ${variable} has the surrogate of the secret ${signing?.[0]}, not that of ${name}`),
  ]
}

const modeOf = (policies: readonly NamedPolicy[], mode: SessionRecord['policy_mode']) =>
  compilePolicy({ network: 'allowlist', mode, policies }).mode

const hostOf = (scope: string) => normalised(splitPort(scope.split('/')[0] ?? '')[0])

const rulesOf = (policies: readonly NamedPolicy[]) =>
  policies.flatMap(({ policy }) => [
    ...policy.domains.map(rule => normalised(splitPort(rule)[0])),
    ...policy.url_prefixes.map(rule => normalised(rule.host)),
  ])

/** A pattern is no host name and stays as it is. */
const normalised = (host: string) => normaliseHost(host) ?? host

/** True if a text exists that both patterns match. Row by row over the first one: cell b is true if its rest and the rest of the second from b can match. */
function canOverlap(first: string, second: string): boolean {
  if (!hasWildcard(first) && !hasWildcard(second)) return first === second
  let row = Array.from({ length: second.length + 1 }, (_, b) => /^\**$/.test(second.slice(b)))
  for (let a = first.length - 1; a >= 0; a--) {
    const before = row
    row = Array.from(before, () => false)
    for (let b = second.length; b >= 0; b--) row[b] = meets(first[a] ?? '', second[b], before[b], before[b + 1], row[b + 1])
  }
  return row[0] === true
}

function meets(x: string, y: string | undefined, down?: boolean, across?: boolean, right?: boolean): boolean {
  if (x === '*') return down === true || (y !== undefined && right === true)
  if (y === '*') return right === true || down === true
  return y !== undefined && (x === '?' || y === '?' || x === y) && across === true
}
