/**
 * Configuration keys that are better kept as secrets, and the names they have there. `sandglass init` moves what it finds in the file; a
 * value that the configuration still has wins over the secret.
 */
export const CREDENTIALS = {
  'agent_api_keys.claude': 'agent.claude',
  'agent_api_keys.codex': 'agent.codex',
  'agent_api_keys.opencode': 'agent.opencode',
  sprites_token: 'sprites_token',
} as const

export type CredentialKey = keyof typeof CREDENTIALS
