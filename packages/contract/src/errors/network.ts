// Errors of policies, approvals and the egress process.
import type { ErrorRow } from './row.ts'

export const NETWORK_ERRORS = {
  EGRESS_UNAVAILABLE: {
    http: 503,
    exit: 3,
    text: (d: { why: string }) => `the egress process is not available: ${d.why}`,
    hint: 'try again; `sandglass doctor` checks the host, and egress.log in the data folder has the details',
  },
  POLICY_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { name: string }) => `no policy ${d.name}`,
    hint: '`sandglass policy ls` shows the names',
  },
  POLICY_BUILT_IN: {
    http: 409,
    exit: 5,
    text: (d: { name: string }) => `the policy ${d.name} is ready-made and cannot be changed`,
    hint: (d: { name: string }) => `store one under another name, with \`include: [${d.name}]\``,
  },
  POLICY_IN_USE: {
    http: 409,
    exit: 5,
    text: (d: { name: string; by: string }) => `the policy ${d.name} is used by ${d.by}`,
    hint: 'remove those sessions or policies first, or give them another policy',
  },
  NETWORK_FIXED: {
    http: 409,
    exit: 5,
    text: (d: { name: string; network: string }) =>
      `the session ${d.name} runs with network ${d.network}; policies need network allowlist or nat`,
    hint: (d: { name: string }) => `sandglass stop ${d.name}, then sandglass start ${d.name} --policy NAME`,
  },
  SECRET_UNSCOPED: {
    http: 409,
    exit: 5,
    text: (d: { name: string }) => `the secret ${d.name} has no scope: it is not known which host may receive it`,
    hint: (d: { name: string }) => `sandglass secret set ${d.name} --scope HOST, or with --preset; the value is read from stdin`,
  },
  APPROVAL_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { id: string }) => `no approval ${d.id}`,
    hint: '`sandglass approval ls` shows what waits',
  },
  APPROVAL_ANSWERED: {
    http: 409,
    exit: 5,
    text: (d: { id: string; status: string }) => `the approval ${d.id} is already ${d.status}`,
  },
} as const satisfies Record<string, ErrorRow>
