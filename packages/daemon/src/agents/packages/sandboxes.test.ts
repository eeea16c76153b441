// Sessions of the oci backend with the real programs of all agents.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AGENTS, type Session } from '@sandglass/contract'
import { afterAll, expect, it } from 'vitest'
import { openOci } from '../../backends/oci/backend.ts'
import { RUNNER_PATH } from '../../backends/plain-child/plain-child.fixture.ts'
import { daemonFixture, type TestDaemon, temporaryFolder, until } from '../../testing/daemon.fixture.ts'
import { type CachedRegistry, cachedRegistry } from '../testing/cached-registry.fixture.ts'
import { agentProgram, agentToolFolders } from './program.ts'
import { AGENT_PACKAGES } from './table.ts'

const registry: CachedRegistry = await cachedRegistry()
afterAll(() => registry.close())

async function ociDaemon(dataDir: string): Promise<TestDaemon> {
  const config = join(await temporaryFolder(), 'config.yaml')
  await writeFile(config, JSON.stringify({ agents: { registry: registry.url } }), { mode: 0o600 })
  const oci = await openOci({ dataDir, runtime: 'auto', runnerPath: RUNNER_PATH })
  return await daemonFixture({ dataDir, backends: () => [oci], flags: { config: [config] } })
}

const run = async (daemon: TestDaemon, id: string, cmd: string) => {
  const { body } = await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd, timeout_ms: 30_000 })
  return body as { output: string; exit_code: number }
}

it('a session has the programs of its agents, read-only, also after a restart of the daemon and another start', {
  timeout: 120_000,
}, async () => {
  const dataDir = await temporaryFolder()
  let daemon = await ociDaemon(dataDir)
  const creating = daemon.call('POST', '/v1/sessions', { agents: AGENTS, mode: 'persistent', memory_mb: 1024, pids_limit: 512 })
  const steps = async () => (await daemon.call('GET', '/v1/preparations')).body as { items: { step: string }[] }
  await until(async () => (await steps()).items.some(({ step }) => /^(downloading|unpacking) claude 2\./.test(step)))
  const { status, body } = await creating
  expect(status).toBe(201)
  const session = body as Session
  expect(session).toMatchObject({ agents: AGENTS, policies: AGENTS, network: 'allowlist', agent: null, prompt: null })
  expect(session.warnings[0]).toBe(
    'Claude Code has no key: set the secret agent.claude (an API key of Anthropic), then stop and start the session',
  )
  for (const agent of AGENTS)
    expect((await run(daemon, session.id, `${agentProgram(agent)} --version`)).output).toContain(AGENT_PACKAGES[agent].version)
  expect((await run(daemon, session.id, `${agentToolFolders('codex')[0]}/rg --version`)).output).toContain('ripgrep')
  expect((await run(daemon, session.id, 'touch /opt/sandglass/claude/x /opt/sandglass/claude/claude')).exit_code).not.toBe(0)
  await daemon.close()

  daemon = await ociDaemon(dataDir)
  expect((await run(daemon, session.id, `${agentProgram('codex')} --version`)).exit_code).toBe(0)
  expect((await daemon.call('DELETE', '/v1/agents/codex')).body).toMatchObject({
    error: { code: 'AGENT_IN_USE', detail: { agent: 'codex', by: session.name } },
  })
  await daemon.call('POST', `/v1/sessions/${session.id}/stop`)
  const started = await daemon.call('POST', `/v1/sessions/${session.id}/start`, { agents: ['opencode'] })
  expect(started.body).toMatchObject({ status: 'running', agents: ['opencode'], policies: ['opencode'] })
  expect((await run(daemon, session.id, 'ls /opt/sandglass/claude')).output).toBe('')
  expect((await run(daemon, session.id, `${agentProgram('opencode')} --version`)).exit_code).toBe(0)
  expect((await daemon.call('DELETE', '/v1/agents/codex')).status).toBe(200)
})
