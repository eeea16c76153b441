import { Policy, type SecretSpec } from '@sandglass/contract'
import { describe, expect, it } from 'vitest'
import { putPolicy } from '../../policies/stored.ts'
import { giveSecrets } from '../../secrets/session-secrets.ts'
import { putSecret } from '../../secrets/stored.ts'
import { daemonFixture } from '../../testing/daemon.fixture.ts'
import type { SessionRecord } from '../session-record.ts'
import { warningsOf } from './warnings.ts'

const VALUE = 'ghp_0123456789abcdefABCDEF0123456789abcd'

type Given = {
  network: SessionRecord['network']
  policy?: object
  mode?: SessionRecord['policy_mode']
  secrets?: Record<string, Omit<SecretSpec, 'value'> & { value?: string }>
  env?: string[]
}

async function warnings({ network, policy, mode = null, secrets = {}, env = [] }: Given): Promise<string[]> {
  const { context } = await daemonFixture()
  if (policy) await putPolicy(context, 'mine', Policy.parse(policy))
  for (const [name, spec] of Object.entries(secrets)) await putSecret(context, name, { value: VALUE, ...spec })
  const given = await giveSecrets(context, Object.keys(secrets), [])
  const policies = policy ? ['mine'] : []
  return await warningsOf(context, { network, policies, policy_mode: mode, secrets: given, agents: [], env_names: env })
}

const TOKEN = { token: { scopes: ['api.example.com:8443/v1/*', '*.cdn.example.com'] } }

describe('a session is warned', () => {
  it.each<[string, Given, string]>([
    ['that a secret is of no use without a network', { network: 'none', secrets: TOKEN }, 'the network is none'],
    ['that a secret is of no use on a bridge', { network: 'bridge', secrets: TOKEN }, 'the network is bridge'],
    ['that it can reach nothing', { network: 'allowlist' }, 'it can reach nothing'],
    [
      'that no policy allows a host of its secret',
      { network: 'allowlist', policy: { domains: ['example.com', '*.example.org'] }, secrets: TOKEN },
      'no policy of the session allows a host of the secret token (api.example.com, *.cdn.example.com)',
    ],
    [
      'that a secret takes the place of a plain value',
      { network: 'nat', secrets: TOKEN, env: ['TOKEN'] },
      'the variable TOKEN has the surrogate of the secret token',
    ],
    [
      'that a signing secret takes the place of a masked one',
      {
        network: 'nat',
        secrets: {
          aws: { preset: 'aws', value: '{"access_key_id":"AKIA0123456789ABCDEF","secret_access_key":"0123456789abcdef"}' },
          key: { env: 'AWS_ACCESS_KEY_ID', scopes: ['a.example'] },
        },
      },
      'the variable AWS_ACCESS_KEY_ID has the surrogate of the secret aws, not that of key',
    ],
  ])('%s', async (_what, given, text) => {
    const found = await warnings(given)
    expect(found).toHaveLength(1)
    expect(found[0]).toContain(text)
  })
})

describe('a session is not warned', () => {
  it.each<[string, Given]>([
    ['without secrets and without a network', { network: 'none' }],
    ['where every public host can be reached', { network: 'nat', secrets: TOKEN }],
    ['where a person is asked', { network: 'allowlist', mode: 'ask', secrets: TOKEN }],
    ['where a policy names the host', { network: 'allowlist', policy: { domains: ['API.example.com:8443'] }, secrets: TOKEN }],
    ['where the pattern of a policy fits', { network: 'allowlist', policy: { domains: ['a*.example.com'] }, secrets: TOKEN }],
    [
      'where two patterns can name the same host',
      { network: 'allowlist', policy: { url_prefixes: [{ host: 'x?.cdn.example.com', path: '/a' }] }, secrets: TOKEN },
    ],
  ])('%s', async (_what, given) => {
    expect(await warnings(given)).toEqual([])
  })
})

it('a session that observes is warned that it can reach every public host', async () => {
  expect(await warnings({ network: 'allowlist', mode: 'observe', secrets: TOKEN })).toEqual([
    'the mode is observe: the session can reach every public host, and the network log records it',
  ])
})
