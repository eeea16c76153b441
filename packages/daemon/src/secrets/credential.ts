// API keys of agents and backends, from the configuration or from the secrets.
import { type Config, CREDENTIALS, type CredentialKey } from '@sandglass/contract'
import { revealSecret, type Vault } from './stored.ts'

/** The value in the configuration or, without one, the secret of that name. */
export async function credential(
  vault: Vault & { readonly config: Readonly<Config> },
  key: CredentialKey,
): Promise<string | undefined> {
  return configured(vault.config, key) ?? (await revealSecret(vault, CREDENTIALS[key]))
}

function configured(config: Readonly<Config>, key: CredentialKey): string | undefined {
  if (key === 'sprites_token') return config.sprites_token
  return config.agent_api_keys[key.slice('agent_api_keys.'.length) as keyof Config['agent_api_keys']]
}
