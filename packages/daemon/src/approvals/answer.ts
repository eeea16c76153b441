// Answers of people to held requests: once, for the session, or into a policy.
import { type Approval, type ApprovalAnswer, SandglassError } from '@sandglass/contract'
import { bracketed } from '@sandglass/egress/policy'
import { readyPolicy, resolvePolicies } from '../policies/named.ts'
import { addRule } from '../policies/stored.ts'
import type { SessionContext } from '../sessions/context.ts'
import { getSession } from '../sessions/live.ts'
import { updateEgress } from '../sessions/network/join-egress.ts'
import { usesPolicy } from '../sessions/network/uses.ts'
import { findApproval, putApprovals } from '../store/approvals.ts'
import type { ApprovalRow } from '../store/tables.ts'
import { expired, toChange } from './held.ts'
import { shownApproval } from './list.ts'

const WEB_PORTS = [80, 443]

/** SECURITY: the policy gets its rule only if the answer counts: a request that was refused meanwhile must not widen it. */
export async function allowApproval(context: SessionContext, id: string, { scope, policy }: ApprovalAnswer): Promise<Approval> {
  const row = await pendingRow(context, id)
  const name = scope === 'policy' ? await policyFor(context, row, policy) : null
  const answered = await answer(context, row, true, scope)
  if (name !== null) await addToPolicy(context, row, name)
  return answered
}

export async function denyApproval(context: SessionContext, id: string, { scope }: ApprovalAnswer): Promise<Approval> {
  if (scope === 'policy')
    throw new SandglassError('INVALID_REQUEST', {
      issue: 'scope: a policy has no rules that refuse',
      next: 'deny with scope session',
    })
  return await answer(context, await pendingRow(context, id), false, scope)
}

async function pendingRow({ store }: SessionContext, id: string): Promise<ApprovalRow> {
  const row = await findApproval(store, id)
  if (row === undefined) throw new SandglassError('APPROVAL_NOT_FOUND', { id })
  if (row.status !== 'pending') throw new SandglassError('APPROVAL_ANSWERED', { id, status: row.status })
  return row
}

async function answer(
  context: SessionContext,
  row: ApprovalRow,
  allowed: boolean,
  scope: ApprovalAnswer['scope'],
): Promise<Approval> {
  const held = await context.egress.supervisor.answerApproval(row.id, allowed, scope)
  const change = held === null ? expired(row) : toChange(held)
  // The event with the answer came before the reply; what is stored follows the order of the events.
  await context.held.settled()
  await putApprovals(context.store, [change])
  context.approvalChanges.announce()
  if (change.status !== (allowed ? 'allowed' : 'denied'))
    throw new SandglassError('APPROVAL_ANSWERED', { id: row.id, status: change.status })
  return shownApproval(change)
}

async function addToPolicy(context: SessionContext, row: ApprovalRow, name: string): Promise<void> {
  const host = bracketed(row.host)
  const withPort = `${host}:${row.port}`
  // Two answers at once must not lose one of the two rules.
  await context.mutex.run(`policy ${name}`, () =>
    row.method === null
      ? addRule(context, name, 'tcp', withPort)
      : addRule(context, name, 'domains', WEB_PORTS.includes(row.port) ? host : withPort),
  )
  await updateEgress(context, await usesPolicy(context, name))
}

/** The named policy, which the session has to use, or the only one of the session that can be changed. */
async function policyFor(context: SessionContext, row: ApprovalRow, asked: string | undefined): Promise<string> {
  const { name: session, policies } = await getSession(context, row.session_id)
  if (asked !== undefined) {
    const resolved = await resolvePolicies(context.store, policies)
    if (readyPolicy(asked) !== undefined) throw new SandglassError('POLICY_BUILT_IN', { name: asked })
    if (resolved.some(({ name }) => name === asked)) return asked
    throw new SandglassError('INVALID_REQUEST', { issue: `policy: the session ${session} does not use the policy ${asked}` })
  }
  const changeable = policies.filter(name => readyPolicy(name) === undefined)
  if (changeable.length === 1 && changeable[0] !== undefined) return changeable[0]
  throw new SandglassError('INVALID_REQUEST', {
    issue:
      changeable.length === 0
        ? `policy: the session ${session} has no policy that can be changed`
        : `policy: the session ${session} has several policies (${changeable.join(', ')}): name the one that gets the rule`,
  })
}
