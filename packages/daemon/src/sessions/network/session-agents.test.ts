// Sessions with agents: what comes with an agent, and what leaves with it. The programs are small scripts.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AGENT_FACTS, type Session } from '@sandglass/contract'
import { expect, it } from 'vitest'
import { agentTarball, smallRegistry } from '../../agents/testing/small-registry.fixture.ts'
import { daemonFixture, type TestDaemon, temporaryFolder } from '../../testing/daemon.fixture.ts'

const VERSIONS = { claude: '1.0.0', codex: '1.0.0', opencode: '1.0.0' } as const

async function agentDaemon(more: object = {}): Promise<TestDaemon> {
  const registry = await smallRegistry()
  for (const agent of ['claude', 'codex', 'opencode'] as const)
    registry.publish(agent, VERSIONS[agent], await agentTarball(agent, { name: 'package/agent', content: agent }))
  const config = join(await temporaryFolder(), 'config.yaml')
  await writeFile(config, JSON.stringify({ agents: { registry: registry.url, versions: VERSIONS }, ...more }), { mode: 0o600 })
  return await daemonFixture({ flags: { config: [config] } })
}

const putKey = (daemon: TestDaemon, agent: keyof typeof VERSIONS, index = 0) => {
  const { secret, settings } = AGENT_FACTS[agent].credentials[index] ?? { secret: '', settings: {} }
  return daemon.call('PUT', `/v1/secrets/${secret}`, { value: `sk-${agent}-0123456789abcdef`, ...settings })
}
const stopped = { mode: 'persistent', start: false }

it('an agent brings its policy and the first of its secrets that exists, and they leave with it', async () => {
  const daemon = await agentDaemon()
  await putKey(daemon, 'claude', 1)
  const { id } = await daemon.create({ ...stopped, agents: ['claude', 'claude'], policies: ['npm'] })
  const shown = async () => (await daemon.call('GET', `/v1/sessions/${id}`)).body as Session
  const secrets = ['agent.claude.subscription']
  expect(await shown()).toMatchObject({
    agents: ['claude'],
    policies: ['npm', 'claude'],
    secrets,
    network: 'allowlist',
    warnings: [],
  })
  await putKey(daemon, 'codex')
  const started = await daemon.call('POST', `/v1/sessions/${id}/start`, { agents: ['codex'] })
  expect(started.body).toMatchObject({ agents: ['codex'], policies: ['npm', 'codex'], secrets: ['agent.codex'] })
  await daemon.call('POST', `/v1/sessions/${id}/stop`)
  expect((await daemon.call('POST', `/v1/sessions/${id}/start`)).body).toMatchObject({
    agents: ['codex'],
    secrets: ['agent.codex'],
  })
})

it('a session whose agent has no key says so, and has the key at the first start after it was set', async () => {
  const daemon = await agentDaemon()
  const { id } = await daemon.create({ ...stopped, agents: ['codex'] })
  const { body } = await daemon.call('GET', `/v1/sessions/${id}`)
  expect((body as Session).warnings).toEqual([
    'Codex has no key: set the secret agent.codex (an API key of OpenAI), then stop and start the session',
  ])
  await putKey(daemon, 'codex')
  expect((await daemon.call('POST', `/v1/sessions/${id}/start`)).body).toMatchObject({ secrets: ['agent.codex'], warnings: [] })
})

it('two agents that read the same variable share one key', async () => {
  const daemon = await agentDaemon()
  await putKey(daemon, 'claude')
  await putKey(daemon, 'opencode')
  const { id } = await daemon.create({ ...stopped, agents: ['claude', 'opencode'] })
  expect((await daemon.call('GET', `/v1/sessions/${id}`)).body).toMatchObject({ secrets: ['agent.claude'], warnings: [] })
})

it('a network without policies stays as it was asked for', async () => {
  const daemon = await agentDaemon()
  await putKey(daemon, 'claude')
  const { id } = await daemon.create({ ...stopped, agents: ['claude'], network: 'none' })
  const { body } = await daemon.call('GET', `/v1/sessions/${id}`)
  expect(body).toMatchObject({ network: 'none', policies: [], secrets: ['agent.claude'] })
  expect((body as Session).warnings).toEqual([expect.stringContaining('the network is none')])
})

it('a mount over the programs or the state of an agent is refused, at a create and at a start', async () => {
  const root = await temporaryFolder()
  await mkdir(join(root, 'folder'))
  const daemon = await agentDaemon({ mount_roots: [root] })
  const mounts = (target: string) => [{ source: join(root, 'folder'), target, readonly: true }]
  const refused = async (target: string, agents: string[]) => {
    const { status, body } = await daemon.call('POST', '/v1/sessions', { ...stopped, agents, mounts: mounts(target) })
    expect([target, status, body]).toMatchObject([target, 400, { error: { code: 'INVALID_REQUEST' } }])
  }
  for (const target of ['/opt/sandglass', '/opt/sandglass/x', '/opt/x/../sandglass/claude/bin']) await refused(target, [])
  for (const target of ['/opt', '/home/sandbox/.claude', '/home/sandbox/.claude/projects']) await refused(target, ['claude'])
  for (const target of ['/home/sandbox/.local', '/home/sandbox/.local/share/']) await refused(target, ['opencode'])
  const { id } = await daemon.create({ ...stopped, agents: ['claude'], mounts: mounts('/home/sandbox/.codex') })
  expect((await daemon.call('POST', `/v1/sessions/${id}/start`, { agents: ['codex'] })).body).toMatchObject({
    error: { code: 'INVALID_REQUEST' },
  })
})

it('the version that a session uses stays installed, and another one can be removed', async () => {
  const daemon = await agentDaemon()
  const { id, name } = await daemon.create({ agents: ['claude'] })
  expect((await daemon.call('DELETE', '/v1/agents/claude')).body).toMatchObject({
    error: { code: 'AGENT_IN_USE', detail: { by: name } },
  })
  expect((await daemon.call('DELETE', '/v1/agents/codex')).status).toBe(200)
  await daemon.call('DELETE', `/v1/sessions/${id}`)
  expect((await daemon.call('DELETE', '/v1/agents/claude')).status).toBe(200)
})
