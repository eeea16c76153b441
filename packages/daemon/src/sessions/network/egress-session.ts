// A session as the egress process gets it: with its policies and the real values of its secrets.
import { SandglassError } from '@sandglass/contract'
import type { EgressSession, NamedPolicy } from '@sandglass/egress/session'
import { endpointForEgress } from '../../backends/machine/egress-endpoint.ts'
import { logFolderInside } from '../../egress/folders.ts'
import { resolvePolicies } from '../../policies/named.ts'
import { secretsForEgress } from '../../secrets/session-secrets.ts'
import type { SessionContext } from '../context.ts'
import type { LiveSession } from '../live.ts'

/** Throws EGRESS_UNAVAILABLE for a machine without an endpoint. SECURITY: the result holds secrets; it goes to the egress process alone. */
export async function egressSession(context: SessionContext, { record, machine }: LiveSession): Promise<EgressSession> {
  const { id, name, network, policy_mode, ca_fingerprint } = record
  if (machine.egress === null || (network !== 'allowlist' && network !== 'nat') || ca_fingerprint === null)
    throw new SandglassError('EGRESS_UNAVAILABLE', { why: `the machine of ${name} was started without egress` })
  return {
    id,
    name,
    endpoint: endpointForEgress(context.dataDir, machine.egress.endpoint),
    token: machine.egress.token,
    network,
    mode: policy_mode,
    policies: await currentPolicies(context, record),
    secrets: await secretsForEgress(context, record.secrets),
    ca: ca_fingerprint,
    logFolder: logFolderInside(id),
  }
}

/** SECURITY: policies that cannot be resolved any more allow nothing. The session must not go on with rules that were taken away. */
async function currentPolicies(context: SessionContext, { id, policies }: LiveSession['record']): Promise<NamedPolicy[]> {
  try {
    return await resolvePolicies(context.store, policies)
  } catch (err) {
    if (!(err instanceof SandglassError)) throw err
    context.log.error({ err, sessionId: id }, 'policies of a session cannot be resolved: it can reach nothing')
    return []
  }
}
