// Networks of a session, modes of a policy, and what a secret can be.

export const NETWORKS = ['none', 'allowlist', 'nat', 'bridge'] as const
/** Networks whose traffic passes the egress process. */
export const FILTERED_NETWORKS = ['allowlist', 'nat'] as const
export const POLICY_MODES = ['enforce', 'observe', 'ask'] as const
export const POLICY_NAME = /^[a-z][a-z0-9-]{0,62}$/
export const POLICY_NAME_RULE = '1 to 63 characters of a-z, 0-9 and -, starting with a letter'
export const APPROVAL_ID = /^appr_[a-z0-9]{16}$/
export const APPROVAL_STATES = ['pending', 'allowed', 'denied', 'expired'] as const
/** How far an answer reaches: this request, the session, or the policy and all sessions that use it. */
export const APPROVAL_SCOPES = ['once', 'session', 'policy'] as const
export const SECRET_KINDS = ['masked', 'aws'] as const
export const SECRET_PRESETS = ['github', 'gitlab', 'npm', 'pypi', 'anthropic', 'openai', 'aws'] as const

export type ApprovalState = (typeof APPROVAL_STATES)[number]
export type ApprovalScope = (typeof APPROVAL_SCOPES)[number]
export type SecretKind = (typeof SECRET_KINDS)[number]
export type SecretPreset = (typeof SECRET_PRESETS)[number]

/** Whether the traffic of a session passes the egress process. */
export const isFiltered = (network: (typeof NETWORKS)[number]): boolean =>
  (FILTERED_NETWORKS as readonly string[]).includes(network)
