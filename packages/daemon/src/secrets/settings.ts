// How a secret is used: its settings, with those of a preset where a request leaves them out.
import { AGENT_FACTS, SandglassError, SECRET_PRESET_SETTINGS, SecretSettings, type SecretSpec } from '@sandglass/contract'
import { AwsKeys } from '@sandglass/egress/session'

const DEFAULTS: SecretSettings = {
  kind: 'masked',
  env: null,
  scopes: [],
  headers: [],
  query: false,
  body: false,
  allow_foreign_credentials: false,
}

const AGENT_SETTINGS = new Map(
  Object.values(AGENT_FACTS).flatMap(({ credentials }) => credentials.map(({ secret, settings }) => [secret, settings] as const)),
)

/** Where credentials are sent unless the request says otherwise. */
const USUAL_HEADERS = ['authorization']

/** The key of an agent, known by its name, needs no settings in the request. */
export function settingsOf(name: string, { value: _, preset, ...given }: SecretSpec): SecretSettings {
  const defined = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  const known = preset === undefined ? AGENT_SETTINGS.get(name) : SECRET_PRESET_SETTINGS[preset]
  const settings: SecretSettings = { ...DEFAULTS, ...known, ...defined }
  const isUnused = settings.kind === 'masked' && settings.scopes.length > 0 && settings.headers.length === 0
  return isUnused && given.headers === undefined ? { ...settings, headers: USUAL_HEADERS } : settings
}

/** `text` is JSON from the store; null for a secret that was stored before there were settings. */
export const storedSettings = (text: string | null): SecretSettings =>
  text === null ? DEFAULTS : SecretSettings.parse(JSON.parse(text))

/** SECURITY: the error never quotes the value. */
export function awsKeysOf(name: string, value: string): AwsKeys {
  const parsed = AwsKeys.safeParse(jsonOf(value))
  if (parsed.success) return parsed.data
  throw new SandglassError('INVALID_REQUEST', {
    issue: `the value of the secret ${name}, of kind aws, must be a JSON object with access_key_id, secret_access_key and, for temporary keys, session_token`,
  })
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null // no object, which the caller refuses
  }
}

/** The variables that have the surrogates of a secret. */
export function variablesOf(name: string, settings: SecretSettings): string[] {
  if (settings.kind === 'aws') return Object.values(AWS_VARIABLES)
  return [settings.env ?? name.toUpperCase().replaceAll(/[^A-Z0-9_]/g, '_')]
}

/** The names that every AWS SDK reads. */
export const AWS_VARIABLES = {
  access_key_id: 'AWS_ACCESS_KEY_ID',
  secret_access_key: 'AWS_SECRET_ACCESS_KEY',
  session_token: 'AWS_SESSION_TOKEN',
} as const satisfies Record<keyof AwsKeys, string>
