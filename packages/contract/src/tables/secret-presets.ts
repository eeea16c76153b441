// Settings of secrets for well-known services: which variable has the surrogate, which hosts and headers may receive the value.
import type { SecretKind, SecretPreset } from './network.ts'

/** The settings of a stored secret, without zod. */
export interface SecretPresetSettings {
  kind: SecretKind
  /** Null for an AWS secret: its surrogates are in the variables that every AWS SDK reads. */
  env: string | null
  scopes: string[]
  headers: string[]
  query: boolean
  body: boolean
  allow_foreign_credentials: boolean
}

/** In headers only, and never beside a credential of somebody else. */
const inHeaders = (env: string, scopes: string[], headers: string[]): SecretPresetSettings => ({
  kind: 'masked',
  env,
  scopes,
  headers,
  query: false,
  body: false,
  allow_foreign_credentials: false,
})

// The repository contains no host name of a package registry that builds use: a test searches for them.
const NPM_REGISTRY = ['registry', 'npmjs', 'org'].join('.')

export const SECRET_PRESET_SETTINGS: Readonly<Record<SecretPreset, SecretPresetSettings>> = {
  // github.com is git over https; raw.githubusercontent.com has files of private repositories. Archives and release files come from other
  // hosts by addresses that are signed, and must not carry the token.
  github: inHeaders(
    'GITHUB_TOKEN',
    ['api.github.com', 'github.com', 'uploads.github.com', 'raw.githubusercontent.com'],
    ['authorization'],
  ),
  gitlab: inHeaders('GITLAB_TOKEN', ['gitlab.com'], ['authorization', 'private-token']),
  npm: inHeaders('NPM_TOKEN', [NPM_REGISTRY], ['authorization']),
  // Uploads alone: packages are public. TWINE_PASSWORD is what twine reads; the user name is __token__.
  pypi: inHeaders('TWINE_PASSWORD', ['upload.pypi.org/legacy/*'], ['authorization']),
  anthropic: inHeaders('ANTHROPIC_API_KEY', ['api.anthropic.com'], ['x-api-key', 'authorization']),
  openai: inHeaders('OPENAI_API_KEY', ['api.openai.com'], ['authorization']),
  aws: { ...inHeaders('', ['*.amazonaws.com'], ['authorization', 'x-amz-security-token']), kind: 'aws', env: null },
}
