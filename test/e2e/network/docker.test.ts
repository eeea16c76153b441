// Programs in a session on docker that reach the network through a policy. The daemon relays their bytes to the egress process.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { deadline } from '../deadline.ts'
import { type NetworkFixture, startNetwork } from './daemon.ts'
import { PROGRAMS } from './programs.ts'
import { API } from './upstream.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 })

let net: NetworkFixture
let id: string

beforeAll(async () => {
  net = await startNetwork('docker')
  await net.policy('api', { domains: [API] })
  const size = { memory_mb: 2048, cpu_cores: 2, pids_limit: 2048 }
  id = (await net.daemon.create({ name: 'programs', backend: 'docker', policies: ['api'], ...size })).id
})
afterAll(async () => await net?.[Symbol.asyncDispose]())

describe('an unmodified program on docker', () => {
  test.each(PROGRAMS)('$title', async ({ cmd, prints }) => {
    expect(await net.run(id, cmd)).toMatch(prints)
  })
})

test('a host outside the policy is refused with the reason on docker', async () => {
  expect(await net.run(id, 'curl -sS https://example.com/')).toContain('no rule allows the host example.com')
})

test('a masked secret reaches its server and is not inside on docker', async () => {
  const real = 'ghp_CANARYxReal0123456789abcdefghijklmno'
  await net.secret('token', { value: real, env: 'API_TOKEN', scopes: [API] })
  const spec = { name: 'masked', backend: 'docker', policies: ['api'], secrets: ['token'], memory_mb: 1024 }
  const { id: masked } = await net.daemon.create(spec)
  const output = await net.run(masked, `curl -sSf -H "Authorization: Bearer $API_TOKEN" https://${API}/reflect; echo; env`)
  expect(net.upstream.seen.findLast(({ url }) => url === '/reflect')?.headers.authorization).toBe(`Bearer ${real}`)
  expect(output).toMatch(/you sent Bearer ghp_[A-Za-z0-9]{36}/)
  expect(output).not.toContain(real)
})

test('after a restart of the daemon requests work again on docker', async () => {
  await net.daemon.restart('SIGKILL')
  const works = async () => (await net.daemon.exec(id, `curl -sSf https://${API}/again`)).exit_code === 0
  await deadline('requests work', works, 60_000)
})
