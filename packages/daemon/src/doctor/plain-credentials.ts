// Keys of agents and backends that lie in plain text, for doctor.
import { CREDENTIALS, type CredentialKey } from '@sandglass/contract'
import { CONFIG_KEYS } from '../config/keys.ts'
import type { Loaded, Origin } from '../config/load.ts'

const KEYS = Object.keys(CREDENTIALS) as CredentialKey[]

/** One finding for each place they lie in: they have one cause and one cure. */
export function plainCredentials({ origins, filePath }: Loaded): { detail: string; fix: string }[] {
  const from = (origin: Origin) => KEYS.filter(key => origins.get(key) === origin)
  const finding = (keys: CredentialKey[], place: string, fix: string) =>
    keys.length > 0 ? [{ detail: `${keys.join(', ')}: in plain text ${place}`, fix }] : []
  return [
    ...finding(from('file'), `in ${filePath}`, '`sandglass init` moves keys into the encrypted secret store'),
    ...finding(from('environment'), 'in the environment', keepAndUnset(from('environment'))),
    ...finding(from('flag'), 'on the command line', keepAndUnset(from('flag'))),
  ]
}

function keepAndUnset(keys: readonly CredentialKey[]): string {
  const names = keys.map(key => CREDENTIALS[key]).join(', ')
  const variables = CONFIG_KEYS.filter(({ path }) => keys.some(key => key === path)).map(key => key.variable)
  return `keep each with \`sandglass secret set\` (${names}) and take away ${variables.join(', ')}`
}
