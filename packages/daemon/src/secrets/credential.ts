// Keys of agents and backends, wherever the operator put them.
import { type Config, CREDENTIALS, type CredentialKey } from '@sandglass/contract'
import { revealSecret, type Vault } from './stored.ts'

/** What the configuration has wins for this run; else the secret of that name. */
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
