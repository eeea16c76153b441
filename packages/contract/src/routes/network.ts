// Routes of policies, approvals, network logs and the certificate authority.
import { z } from 'zod'
import * as network from '../schemas/network.ts'
import * as policies from '../schemas/policies.ts'
import { Ok } from '../schemas/primitives.ts'
import { Session } from '../schemas/session.ts'
import { Bytes, found, type RouteSchemas, sessionId } from './schemas.ts'

const policyName = z.strictObject({ name: policies.PolicyName })

export const NETWORK_ROUTES = {
  putPolicy: {
    summary: 'Store a policy, or replace the one of that name; running sessions that use it change at once',
    params: policyName,
    body: policies.Policy,
    reply: policies.StoredPolicy,
    errors: ['POLICY_NOT_FOUND', 'POLICY_BUILT_IN'],
  },
  listPolicies: { summary: 'List policies', query: policies.PolicyQuery, reply: policies.PolicyList, errors: [] },
  getPolicy: { summary: 'Show a policy', params: policyName, reply: policies.StoredPolicy, errors: ['POLICY_NOT_FOUND'] },
  deletePolicy: {
    summary: 'Remove a policy that no session uses',
    params: policyName,
    reply: Ok,
    errors: ['POLICY_NOT_FOUND', 'POLICY_BUILT_IN', 'POLICY_IN_USE'],
  },
  checkPolicy: {
    summary: 'Tell whether a policy allows a request',
    params: policyName,
    body: policies.PolicyCheckRequest,
    reply: policies.PolicyCheck,
    errors: ['POLICY_NOT_FOUND'],
  },
  setSessionPolicies: {
    summary: 'Change the policies of a session; open connections that they no longer allow are cut',
    params: sessionId,
    body: network.SessionPolicies,
    reply: Session,
    errors: [...found, 'WRONG_STATE', 'POLICY_NOT_FOUND', 'NETWORK_FIXED', 'EGRESS_UNAVAILABLE'],
  },
  suggestPolicy: {
    summary: 'Make a policy from the requests that a session has sent',
    params: sessionId,
    reply: z.object(policies.Policy.shape),
    errors: found,
  },
  networkLog: {
    summary: 'Read or follow the network log of a session',
    params: sessionId,
    query: network.NetworkQuery,
    reply: network.NetworkEntry,
    errors: found,
  },
  networkLogFile: { summary: 'The network log of a session as text', params: sessionId, reply: Bytes, errors: found },
  listApprovals: {
    summary: 'List held requests and the answers to them',
    query: network.ApprovalQuery,
    reply: network.ApprovalList,
    errors: [],
  },
  approvalEvents: { summary: 'Follow held requests and the answers to them', reply: network.Approval, errors: [] },
  allowApproval: {
    summary: 'Allow a held request',
    params: network.approvalId,
    body: network.ApprovalAnswer,
    reply: network.Approval,
    errors: ['APPROVAL_NOT_FOUND', 'APPROVAL_ANSWERED', 'POLICY_NOT_FOUND', 'POLICY_BUILT_IN', 'EGRESS_UNAVAILABLE'],
  },
  denyApproval: {
    summary: 'Refuse a held request',
    params: network.approvalId,
    body: network.ApprovalAnswer,
    reply: network.Approval,
    errors: ['APPROVAL_NOT_FOUND', 'APPROVAL_ANSWERED', 'EGRESS_UNAVAILABLE'],
  },
  getCa: {
    summary: 'Show the certificate authority that signs certificates for sandboxes',
    reply: network.CertificateAuthority,
    errors: [],
  },
  rotateCa: {
    summary: 'Make a new certificate authority; sessions use it from their next start on',
    reply: network.CertificateAuthority,
    errors: ['EGRESS_UNAVAILABLE'],
  },
} as const satisfies Record<string, RouteSchemas>
