// The real package registries, through the ready-made policies.
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type NetworkFixture, startNetwork } from './daemon.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 })

/** The registries are on the real network, where a request may fail. */
const RETRIES = '--fetch-retries=5 --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=10000'
let net: NetworkFixture

beforeAll(async () => {
  net = await startNetwork('oci')
})
afterAll(async () => await net?.[Symbol.asyncDispose]())

test('npm installs a package with the policy npm, and nothing else is reached', async () => {
  const { id } = await net.daemon.create({ name: 'npm', policies: ['npm'], memory_mb: 1024, cpu_cores: 2 })
  expect(
    await net.run(id, `cd /workspace && npm install ${RETRIES} --no-audit --no-fund is-number 2>&1; ls node_modules`),
  ).toContain('is-number')
  expect(await net.run(id, 'curl -sS https://example.com/')).toContain('blocked_by_network_allowlist')
  const blocked = async () => (await net.entries(id)).filter(({ decision }) => decision === 'blocked').map(({ host }) => host)
  await expect.poll(blocked).toEqual(['example.com'])
})

test('apt updates its lists and downloads a package with the policy debian', async () => {
  const { id } = await net.daemon.create({ name: 'apt', policies: ['debian'], memory_mb: 2048, cpu_cores: 2 })
  const output = await net.run(
    id,
    `mkdir -p /workspace/apt/lists/partial /workspace/apt/cache/archives/partial /workspace/apt/etc && cd /workspace/apt &&
     . /etc/os-release && site=$(printf %s deb . debian . org) && touch status &&
     echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://$site/debian $VERSION_CODENAME main" > etc/sources.list &&
     options="-o Dir::Etc=/workspace/apt/etc -o Dir::State=/workspace/apt -o Dir::State::status=/workspace/apt/status -o Dir::Cache=/workspace/apt/cache -o APT::Sandbox::User=sandbox -o Acquire::Retries=5" &&
     apt-get $options update 2>&1 | tail -3 && apt-get $options download hello 2>&1 && ls`,
  )
  expect(output).toMatch(/hello_\S+\.deb/)
})
