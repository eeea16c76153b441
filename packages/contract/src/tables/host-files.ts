// Files of this machine that the daemon and its clients share: the data folder and the configuration.

/** Files in data_dir that the daemon writes and its clients on the same machine read. */
export const DATA_FILES = {
  socket: 'sandglass.sock',
  apiKey: 'api-key',
  daemonLog: 'daemon.log',
  egressLog: 'egress.log',
  pid: 'lock.pid',
} as const

/** The next step for a configuration file that does not exist. */
export const makeConfigFile = (path: string): string =>
  `name an existing file, or create this one: sandglass init --config ${path}`

/** The next step for a configuration file of another user. */
export const ownConfigFile = (path: string): string => `sudo chown "$(id -u)" ${path}`

/** What is wrong with a YAML file. SECURITY: the parser's message quotes the file, which may hold keys; this one names a key and a line, no value. */
export function yamlIssue(text: string, error: unknown): string {
  const { code, linePos } = error as { code?: unknown; linePos?: readonly { line: number; col: number }[] }
  const at = linePos?.[0]
  if (at === undefined) return 'is not YAML'
  const key = /^["']?([a-z_]{1,64})["']?\s*:/.exec((text.split('\n')[at.line - 1] ?? '').slice(at.col - 1))?.[1]
  if (code === 'DUPLICATE_KEY' && key !== undefined) return `has the key ${key} twice (line ${at.line}): keep one`
  return `is not YAML (line ${at.line})`
}

/**
 * Configuration keys that are better kept as secrets, with the names of those secrets. `sandglass init` moves the values from the file; a
 * value that is still in the configuration wins over the secret.
 */
export const CREDENTIALS = {
  'agent_api_keys.claude': 'agent.claude',
  'agent_api_keys.codex': 'agent.codex',
  'agent_api_keys.opencode': 'agent.opencode',
  sprites_token: 'sprites_token',
} as const

export type CredentialKey = keyof typeof CREDENTIALS
