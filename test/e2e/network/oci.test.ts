// Programs in a session on oci that reach the network through a policy.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type NetworkFixture, startNetwork } from './daemon.ts'
import { PROGRAMS } from './programs.ts'
import { API } from './upstream.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let net: NetworkFixture
let id: string

beforeAll(async () => {
  net = await startNetwork('oci')
  await net.policy('api', { domains: [API] })
  id = (await net.daemon.create({ name: 'programs', policies: ['api'], memory_mb: 2048, cpu_cores: 2, pids_limit: 2048 })).id
})
afterAll(async () => await net?.[Symbol.asyncDispose]())

describe('an unmodified program on oci', () => {
  test.each(PROGRAMS)('$title', async ({ cmd, prints }) => {
    expect(await net.run(id, cmd)).toMatch(prints)
  })
})
