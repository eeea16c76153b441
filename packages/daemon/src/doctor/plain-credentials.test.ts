import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CREDENTIALS } from '@sandglass/contract'
import { expect, it } from 'vitest'
import { CONFIG_KEYS } from '../config/keys.ts'
import { loadConfig } from '../config/load.ts'
import { temporaryFolder } from '../testing/daemon.fixture.ts'
import { examine } from './doctor.ts'

it('every agent and Sprites has a credential, and each is a secret key of the configuration', () => {
  const secret = CONFIG_KEYS.filter(key => key.isSecret).map(key => key.path)
  const ours = secret.filter(path => path.startsWith('agent_api_keys.') || path === 'sprites_token')
  expect(Object.keys(CREDENTIALS).toSorted()).toEqual(ours.toSorted())
})

it('doctor says which keys lie in plain text and what moves them, and shows none', async () => {
  const home = await temporaryFolder()
  const file = join(home, 'config.yaml')
  await writeFile(file, 'agent_api_keys: { claude: sk-hidden-1 }\nsprites_token: sk-hidden-2\n', { mode: 0o600 })
  const env = { SANDGLASS_CONFIG: file, SANDGLASS_AGENT_API_KEYS_CODEX: 'sk-hidden-3' }
  const loaded = loadConfig({ flags: {}, env, home, userId: process.getuid?.() ?? 0 })
  const { checks } = await examine({ loaded, backends: [], runner: { path: '/bin/true', fix: '' } })
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
      fix: 'keep each with `sandglass secret set` (agent.codex) and take away SANDGLASS_AGENT_API_KEYS_CODEX',
    },
  ])
  expect(JSON.stringify(checks)).not.toContain('hidden')
})
