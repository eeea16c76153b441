import type { SecretSpec } from '@sandglass/contract'
import { LIMITS } from '@sandglass/contract'
import { describe, expect, it } from 'vitest'
import { storeFixture } from '../store/engines.fixture.ts'
import { type GivenSecret, giveSecrets, secretsForEgress, secretVariables } from './session-secrets.ts'
import { putSecret, removeSecret, rotateSecret, type Vault } from './stored.ts'

const TOKEN = 'ghp_0123456789abcdefABCDEF0123456789abcd'
const AWS = { access_key_id: 'AKIA0123456789ABCDEF', secret_access_key: 'abcd/efgh+0123456789abcdefghijklmnopqrst' }
const SCOPED = { scopes: ['api.example.com'], headers: ['authorization'] }

async function vaultFixture(secrets: Record<string, SecretSpec>): Promise<Vault> {
  const vault: Vault = { store: await storeFixture('sqlite'), secretKey: Buffer.alloc(32, 7), now: () => 1000 }
  for (const [name, spec] of Object.entries(secrets)) await putSecret(vault, name, spec)
  return vault
}

const surrogateOf = (given: readonly GivenSecret[]) => String(given[0]?.surrogate)

describe('a secret of a session', () => {
  it('has a surrogate in its variable, and its value goes to the egress process alone', async () => {
    const vault = await vaultFixture({ github: { value: TOKEN, preset: 'github' } })
    const given = await giveSecrets(vault, ['github'], [])
    expect(surrogateOf(given)).toMatch(/^ghp_[0-9A-Za-z]{36}$/)
    expect(JSON.stringify(given)).not.toContain(TOKEN)
    expect(await secretVariables(vault, given)).toEqual({ GITHUB_TOKEN: surrogateOf(given) })
    expect(await secretsForEgress(vault, given)).toMatchObject([
      { kind: 'masked', name: 'github', value: TOKEN, surrogate: surrogateOf(given), headers: ['authorization'] },
    ])
  })

  it('keeps its surrogate when the session gets further secrets, and after a rotation', async () => {
    const vault = await vaultFixture({ a: { value: TOKEN, ...SCOPED }, b: { value: TOKEN, ...SCOPED } })
    const before = await giveSecrets(vault, ['a'], [])
    await rotateSecret(vault, 'a', `${TOKEN}x`)
    const after = await giveSecrets(vault, ['b', 'a', 'a'], before)
    expect(after.map(({ name }) => name)).toEqual(['b', 'a'])
    expect(after[1]).toEqual(before[0])
    expect((await secretsForEgress(vault, after))[1]).toMatchObject({ value: `${TOKEN}x`, surrogate: surrogateOf(before) })
  })

  it('is given under its name in upper case unless its settings name a variable', async () => {
    const vault = await vaultFixture({
      'agent.claude-key': { value: TOKEN, ...SCOPED },
      b: { value: TOKEN, env: 'My_Var', ...SCOPED },
    })
    const given = await giveSecrets(vault, ['agent.claude-key', 'b'], [])
    expect(Object.keys(await secretVariables(vault, given))).toEqual(['AGENT_CLAUDE_KEY', 'My_Var'])
  })

  it('of kind aws has the three variables of every SDK, which take precedence over masked ones', async () => {
    const vault = await vaultFixture({
      aws: { value: JSON.stringify({ ...AWS, session_token: 't'.repeat(100) }), preset: 'aws' },
      other: { value: TOKEN, env: 'AWS_ACCESS_KEY_ID', ...SCOPED },
    })
    for (const names of [
      ['aws', 'other'],
      ['other', 'aws'],
    ]) {
      const variables = await secretVariables(vault, await giveSecrets(vault, names, []))
      expect(variables).toMatchObject({
        AWS_ACCESS_KEY_ID: expect.stringMatching(/^ASIA[A-Z0-9]{16}$/),
        AWS_SECRET_ACCESS_KEY: expect.any(String),
        AWS_SESSION_TOKEN: expect.any(String),
      })
      expect(Object.values(variables)).not.toContain(AWS.secret_access_key)
    }
  })

  it('that became one of another kind has another surrogate at the next start, and is not sent before', async () => {
    const vault = await vaultFixture({ a: { value: TOKEN, ...SCOPED } })
    const before = await giveSecrets(vault, ['a'], [])
    await putSecret(vault, 'a', { value: JSON.stringify(AWS), preset: 'aws' })
    expect(await secretsForEgress(vault, before)).toEqual([])
    expect(await giveSecrets(vault, ['a'], before)).toMatchObject([{ surrogate: { access_key_id: expect.any(String) } }])
  })

  it('that was removed meanwhile is left out', async () => {
    const vault = await vaultFixture({ a: { value: TOKEN, ...SCOPED } })
    const given = await giveSecrets(vault, ['a'], [])
    await removeSecret(vault, 'a')
    expect([await secretsForEgress(vault, given), await secretVariables(vault, given)]).toEqual([[], {}])
  })
})

it('a secret that is too short for a surrogate is not stored for sessions', async () => {
  const refused = await vaultFixture({ a: { value: 'ghp_abc', ...SCOPED } }).catch((e: unknown) => e)
  expect(refused).toMatchObject({ code: 'INVALID_REQUEST' })
  expect(String((refused as Error).message)).not.toContain('ghp_abc')
})

describe('a session is refused a secret', () => {
  it.each<[string, Record<string, SecretSpec>, string[], object]>([
    ['that does not exist', {}, ['a'], { code: 'SECRET_NOT_FOUND' }],
    ['without a scope', { a: { value: TOKEN } }, ['a'], { code: 'SECRET_UNSCOPED' }],
    [
      'in the variable of another one',
      { a: { value: TOKEN, env: 'X', ...SCOPED }, b: { value: TOKEN, env: 'X', ...SCOPED } },
      ['a', 'b'],
      { code: 'INVALID_REQUEST', message: 'secrets: a and b are both given as the variable X' },
    ],
    [
      'whose surrogates are too much for an environment',
      { a: { value: 'x1'.repeat(LIMITS.secret_value_bytes.max / 2), ...SCOPED } },
      ['a'],
      { code: 'INVALID_REQUEST' },
    ],
  ])('%s', async (_what, secrets, names, error) => {
    const vault = await vaultFixture(secrets)
    const refused = await giveSecrets(vault, names, []).catch((e: unknown) => e)
    expect(refused).toMatchObject(error)
  })
})
