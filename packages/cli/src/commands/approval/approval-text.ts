// Approvals as text. SECURITY: programs in a sandbox choose method and URL.
import type { ApprovalInfo } from '@sandglass/sdk'
import { printable } from '../../output/printable.ts'

/** GET https://example.com/x, or the address of a TCP connection. */
export const requestText = ({ method, url }: ApprovalInfo): string => printable(method === null ? url : `${method} ${url}`)

/** pending, or the answer with how far it reaches: allowed (session). */
export const statusText = ({ status, scope }: ApprovalInfo): string =>
  scope === null || scope === 'once' ? status : `${status} (${scope})`

/** One line for `ls -f`. */
export const approvalLine = (approval: ApprovalInfo): string =>
  [
    approval.answeredAt ?? approval.requestedAt,
    approval.id,
    printable(approval.sessionName),
    statusText(approval),
    requestText(approval),
  ].join('  ')
