// The network of a session: which one a request asks for, with which policies and which secrets.
import { type AgentName, isFiltered, type Network, type PolicyMode, SandglassError } from '@sandglass/contract'
import { resolvePolicies } from '../../policies/named.ts'
import { giveSecrets } from '../../secrets/session-secrets.ts'
import type { SessionContext } from '../context.ts'
import type { SessionRecord } from '../session-record.ts'
import { policiesWith, refuseAgentMounts, secretsWith } from './session-agents.ts'
import { warningsOf } from './warnings.ts'

/** What a create, a start or a change of policies asks for. What is absent stays as it is. */
export type NetworkRequest = {
  network?: Network | undefined
  policies?: readonly string[] | undefined
  policy_mode?: PolicyMode | null | undefined
  secrets?: readonly string[] | undefined
  /** They bring their policies, and at every start the key that they need. */
  agents?: readonly AgentName[] | undefined
}

export type NetworkSettings = Pick<SessionRecord, 'network' | 'policies' | 'policy_mode' | 'secrets' | 'agents' | 'warnings'>

/**
 * The settings after the request. `before` is the session as it is stored, or as the defaults make it. Throws POLICY_NOT_FOUND, SECRET_NOT_FOUND,
 * SECRET_UNSCOPED or INVALID_REQUEST.
 */
export async function networkSettings(
  context: SessionContext,
  before: SessionRecord,
  request: NetworkRequest,
): Promise<NetworkSettings> {
  const agents = [...new Set(request.agents ?? before.agents)]
  refuseAgentMounts(before.mounts, agents)
  const asked = request.secrets ?? before.secrets.map(({ name }) => name)
  const secrets = await giveSecrets(context, await secretsWith(context, asked, before.agents, agents), before.secrets)
  const policies = agentPolicies(before, agents, request)
  return { agents, secrets, ...(await policySettings(context, { ...before, agents, secrets }, { ...request, policies })) }
}

/** A request for agents adds their policies, unless it asks for a network that has none. */
function agentPolicies(
  before: SessionRecord,
  agents: readonly AgentName[],
  request: NetworkRequest,
): readonly string[] | undefined {
  const hasPolicies = request.network === undefined || isFiltered(request.network)
  if (request.agents === undefined || !hasPolicies) return request.policies
  return policiesWith(request.policies ?? before.policies, before.agents, agents)
}

/** The same without secrets and agents. Policies and a mode imply network allowlist; a network without a filter has neither. */
export async function policySettings(
  context: SessionContext,
  before: SessionRecord,
  request: Omit<NetworkRequest, 'secrets' | 'agents'>,
): Promise<Omit<NetworkSettings, 'secrets' | 'agents'>> {
  const network = networkOf(before.network, request)
  const hasPolicies = isFiltered(network)
  const policies = hasPolicies ? [...new Set(request.policies ?? before.policies)] : []
  const policy_mode = !hasPolicies ? null : request.policy_mode === undefined ? before.policy_mode : request.policy_mode
  await resolvePolicies(context.store, policies)
  const settings = { network, policies, policy_mode }
  return { ...settings, warnings: await warningsOf(context, { ...before, ...settings }) }
}

function networkOf(before: Network, { network, policies = [], policy_mode }: NetworkRequest): Network {
  const wantsFilter = policies.length > 0 || (policy_mode !== undefined && policy_mode !== null)
  if (!wantsFilter) return network ?? before
  if (network === undefined) return isFiltered(before) ? before : 'allowlist'
  if (isFiltered(network)) return network
  const what = policies.length > 0 ? 'policies' : 'policy_mode'
  throw new SandglassError('INVALID_REQUEST', {
    issue: `network: ${network} has no policies, but ${what} is given`,
    next: `leave out network, or leave out ${what}`,
  })
}
