import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliHome, WITHOUT_KVM } from './cli-home.ts'

let cli: CliHome

beforeAll(async () => {
  cli = await CliHome.open()
})
afterAll(() => cli.close())

test('init writes a private file and keeps its other keys; config shows the origin of each value', async () => {
  const env = { SANDGLASS_CONFIG: join(cli.home, 'made/config.yaml') }
  expect(await cli.run(['init', '--default-image', 'host'], { env })).toMatchObject({ code: 0, stdout: '' })
  expect(((await stat(env.SANDGLASS_CONFIG)).mode & 0o777).toString(8)).toBe('600')
  await writeFile(env.SANDGLASS_CONFIG, `# mine\nlog_level: warn\n${await readFile(env.SANDGLASS_CONFIG, 'utf8')}`)
  const dataDir = join(cli.home, 'elsewhere')
  expect(await cli.run(['init', '--data-dir', dataDir], { env })).toMatchObject({ code: 0 })
  expect(await readFile(env.SANDGLASS_CONFIG, 'utf8')).toBe(
    `# mine\nlog_level: warn\ndefault_image: host\ndata_dir: ${dataDir}\n`,
  )
  const shown = await cli.run(['config'], { env: { ...env, SANDGLASS_SESSION_TTL_SECONDS: '60' } })
  expect(shown.stdout).toMatch(/^log_level +warn +file$/m)
  expect(shown.stdout).toMatch(/^session_ttl_seconds +60 +environment$/m)
  expect(await cli.run(['init'], { env })).toMatchObject({ code: 2, stderr: expect.stringContaining('no terminal') })
  expect(await cli.run(['init', '--data-dir', ''], { env })).toMatchObject({ code: 2 })
})

test('keys without effect are neither asked for nor shown, and a file with them is still valid', async () => {
  const shown = (
    await Promise.all([['help', 'init'], ['help', 'new'], ['help', 'serve'], ['config']].map(args => cli.run(args)))
  ).map(({ code, stdout }) => ({ code, names: stdout.match(/sprites|template/gi) }))
  expect(shown).toEqual(Array(4).fill({ code: 0, names: null }))
})

test('init stores the key of the default agent with the hosts that may receive it, from stdin or a variable', async () => {
  const env = { SANDGLASS_CONFIG: join(cli.home, 'agent.yaml'), MY_KEY: 'sk-from-variable' }
  const config = ['init', '--agent', 'codex', '--data-dir', cli.dataDir]
  const piped = await cli.run([...config, '--api-key', '-'], { env, input: 'sk-from-stdin\n' })
  expect(piped).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining('as the secret agent.codex') })
  expect(await cli.run(['init', '--agent', 'claude', '--api-key', 'MY_KEY'], { env })).toMatchObject({ code: 0 })
  expect(await readFile(env.SANDGLASS_CONFIG, 'utf8')).toBe(`data_dir: ${cli.dataDir}\ndefault_agent: claude\n`)
  expect((await cli.run(['config'], { env })).stdout).toMatch(/^default_agent +claude +file$/m)
  const stored = JSON.parse((await cli.run(['secret', 'ls', '--json'], { env })).stdout)
  expect(stored).toMatchObject([
    { name: 'agent.claude', env: 'ANTHROPIC_API_KEY', scopes: ['api.anthropic.com'], headers: ['x-api-key', 'authorization'] },
    { name: 'agent.codex', env: 'OPENAI_API_KEY', scopes: ['api.openai.com'], headers: ['authorization'] },
  ])
  for (const wrong of ['sk-ant-secret', 'NO_SUCH_VARIABLE']) {
    const refused = await cli.run(['init', '--api-key', wrong], { env })
    expect(refused.code).toBe(2)
    expect(refused.stderr).not.toContain(wrong)
  }
  expect(await cli.run(['init', '--agent', 'gpt'], { env })).toMatchObject({ code: 2 })
  expect(await cli.run(['secret', 'set', 'agent.opencode'], { env, input: 'sk-0123456789' })).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/^stored agent.opencode$/m),
  })
})

test('doctor prints what works, as text and as JSON', async () => {
  const told = await cli.run(['doctor'], { env: WITHOUT_KVM })
  expect(told).toMatchObject({ code: 0, stdout: expect.stringContaining('sessions can be created') })
  expect(JSON.parse((await cli.run(['doctor', '--json'], { env: WITHOUT_KVM })).stdout)).toMatchObject({ ok: true })
  const nothing = {
    SANDGLASS_BACKENDS_OCI_RUNTIME: '/no/such/runtime',
    SANDGLASS_BACKENDS_DOCKER_API_ENDPOINT: 'unix:///no/such/engine',
    SANDGLASS_BACKENDS_MICROVM_QEMU: '/no/such/qemu',
  }
  const missing = await cli.run(['doctor'], { env: nothing })
  expect(missing).toMatchObject({ code: 3, stdout: expect.stringContaining('fix: ') })
})
