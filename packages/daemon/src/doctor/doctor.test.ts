import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CREDENTIALS } from '@sandglass/contract'
import { expect, it } from 'vitest'
import type { Backend, Probe } from '../backends/backend.ts'
import { CONFIG_KEYS } from '../config/keys.ts'
import { loadConfig } from '../config/load.ts'
import { plainChild, temporaryFolder } from '../testing/daemon.fixture.ts'
import { egressDaemonFixture } from '../testing/egress-daemon.fixture.ts'
import { runChecks } from './doctor.ts'

async function limitsOf(changes: Partial<Probe>) {
  const home = await temporaryFolder()
  const backend: Backend = plainChild(home)
  const probe = await backend.probe()
  backend.probe = async () => ({ ...probe, ...changes })
  const loaded = loadConfig({ flags: {}, env: {}, home, userId: process.getuid?.() ?? 0 })
  const { checks } = await runChecks({ loaded, backends: [backend], runner: { path: '/bin/true', fix: '' } })
  return checks.find(({ name }) => name.endsWith(': limits'))
}

it('doctor reports a limit that cannot be enforced with the reason and a fix', async () => {
  const [unenforceableWhy, unenforceableFix] = ['a volume has no quota', 'use another backend']
  expect(await limitsOf({ unenforceable: ['disk'], unenforceableWhy, unenforceableFix })).toMatchObject({
    status: 'failed',
    detail: 'disk cannot be enforced here, so sessions are refused: a volume has no quota',
    fix: expect.stringMatching(/^use another backend; or accept it: .*allow_unenforced: \[disk\]/),
  })
})

it('every agent and Sprites has a credential, and each is a secret key of the configuration', () => {
  const secret = CONFIG_KEYS.filter(key => key.isSecret).map(key => key.path)
  const ours = secret.filter(path => path.startsWith('agent_api_keys.') || path === 'sprites_token')
  expect(Object.keys(CREDENTIALS).toSorted()).toEqual(ours.toSorted())
})

it('doctor reports which keys are stored in plain text and how to move them, and prints none of them', async () => {
  const home = await temporaryFolder()
  const file = join(home, 'config.yaml')
  await writeFile(file, 'agent_api_keys: { claude: sk-hidden-1 }\nsprites_token: sk-hidden-2\n', { mode: 0o600 })
  const env = { SANDGLASS_CONFIG: file, SANDGLASS_AGENT_API_KEYS_CODEX: 'sk-hidden-3' }
  const loaded = loadConfig({ flags: {}, env, home, userId: process.getuid?.() ?? 0 })
  const { checks } = await runChecks({ loaded, backends: [], runner: { path: '/bin/true', fix: '' } })
  const found = checks.filter(check => check.name === 'secrets')
  expect(found).toEqual([
    {
      name: 'secrets',
      status: 'weaker',
      detail: `agent_api_keys.claude, sprites_token: in plain text in ${file}`,
      fix: expect.stringContaining('`sandglass init` moves'),
    },
    {
      name: 'secrets',
      status: 'weaker',
      detail: 'agent_api_keys.codex: in plain text in the environment',
      fix: 'store each with `sandglass secret set` (agent.codex) and unset SANDGLASS_AGENT_API_KEYS_CODEX',
    },
  ])
  expect(JSON.stringify(checks)).not.toContain('hidden')
})

it('a launcher that is missing beside the runner fails, with the command that brings it', async () => {
  const home = await temporaryFolder()
  const runner = { path: join(home, 'runner'), fix: 'tools/dev setup' }
  await writeFile(runner.path, '')
  await chmod(runner.path, 0o755)
  const loaded = loadConfig({ flags: {}, env: {}, home, userId: process.getuid?.() ?? 0 })
  const { ok, checks } = await runChecks({ loaded, backends: [], runner })
  expect(ok).toBe(false)
  expect(checks).toContainEqual({
    name: 'launcher',
    status: 'failed',
    detail: `${join(home, 'launcher')} is missing`,
    fix: 'tools/dev setup',
  })
  expect(checks).toContainEqual({ name: 'runner', status: 'ok', detail: runner.path, fix: null })
})

it('doctor has a line about the egress process while one runs', async () => {
  const { daemon } = await egressDaemonFixture()
  const flags = { 'data-dir': [daemon.dataDir] }
  const loaded = loadConfig({ flags, env: {}, home: daemon.dataDir, userId: process.getuid?.() ?? 0 })
  const egress = async () => {
    const { checks } = await runChecks({ loaded, backends: [], runner: { path: '/bin/true', fix: '' } })
    return checks.filter(check => check.name === 'egress')
  }
  expect(await egress()).toEqual([])
  await daemon.create({ network: 'allowlist', policy_mode: 'observe' })
  expect(await egress()).toEqual([
    { name: 'egress', status: 'ok', detail: expect.stringMatching(/^pid \d+, sessions: 1$/), fix: null },
  ])
  process.kill((await daemon.context.egress.supervisor.ensure()).hello.pid, 'SIGSTOP')
  expect(await egress()).toMatchObject([{ status: 'weaker', detail: expect.stringContaining('it does not answer') }])
})
