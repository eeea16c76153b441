// Sessions on the docker backend, from the command line and through a daemon, against a private engine.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { CliHome, isAlive, WITHOUT_KVM } from './cli-home.ts'
import { deadline } from './deadline.ts'

// An engine of its own takes its time on a busy machine.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let engine: ChildProcess
let folder: string
let cli: CliHome

beforeAll(async () => {
  engine = spawn(process.execPath, [resolve('tools/docker-engine.ts')], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [line] = await once(engine.stdout ?? engine, 'data')
  const { socket, folder: found } = JSON.parse(String(line))
  folder = found
  cli = await CliHome.open()
  mkdirSync(join(cli.home, '.sandglass'), { mode: 0o700 })
  const oci = { runtimes: { runc: '/no/such/runc' } }
  const docker = { api_endpoint: `unix://${socket}`, allow_unenforced: ['disk'], runtimes: ['runc', 'kata'] }
  writeFileSync(join(cli.home, '.sandglass/config.yaml'), JSON.stringify({ listen: ['unix'], backends: { docker, oci } }), {
    mode: 0o600,
  })
})

afterAll(async () => {
  await cli?.close()
  engine?.stdin?.end()
  if (engine?.exitCode === null) await once(engine, 'exit')
})

const ok = async (...args: string[]) => {
  const ran = await cli.run(args)
  expect(ran, ran.stderr).toMatchObject({ code: 0 })
  return ran.stdout
}

async function killDaemon(): Promise<void> {
  const pid = cli.daemonPid
  process.kill(pid, 'SIGKILL')
  await deadline('the daemon is gone', () => !isAlive(pid))
}

test('a session on docker is made, used, stopped, started and removed like any other', async () => {
  await ok('new', 'boxed', '--backend', 'docker')
  expect(JSON.parse(await ok('inspect', 'boxed', '--json'))).toMatchObject({
    backend: 'docker',
    status: 'running',
    unenforced: ['disk'],
  })
  await ok('exec', 'boxed', '-c', 'cd /tmp; export KEPT=yes; echo mine > ~/f')
  expect(await ok('exec', 'boxed', '-c', 'echo $KEPT $PWD')).toBe('yes /tmp\n')
  await ok('pause', 'boxed')
  await ok('resume', 'boxed')
  await ok('stop', 'boxed')
  await ok('start', 'boxed')
  expect(await ok('exec', 'boxed', '--', 'cat', '/home/sandbox/f')).toBe('mine\n')
  const asRoot = await cli.run(['exec', 'boxed', '--user', 'root', '--', 'id'])
  expect(asRoot).toMatchObject({ stderr: expect.stringContaining('nobody is root') })
  await ok('rm', '-f', 'boxed')
})

test('a daemon that is killed finds its containers again, with their shells', async () => {
  await ok('new', 'found', '--backend', 'docker')
  await ok('exec', 'found', '-c', 'cd /tmp; X=1')
  await killDaemon()
  expect(await ok('exec', 'found', '-c', 'echo $X $PWD')).toBe('1 /tmp\n')
  await ok('rm', '-f', 'found')
})

test('a session may have one of the engine’s runtimes that the configuration names', async () => {
  await ok('new', 'chosen', '--backend', 'docker', '--runtime', 'runc')
  expect(JSON.parse(await ok('inspect', 'chosen', '--json'))).toMatchObject({ backend: 'docker', runtime: 'runc' })
  await ok('exec', 'chosen', '-c', 'cd /tmp; X=1')
  await killDaemon()
  expect(await ok('exec', 'chosen', '-c', 'echo $X $PWD')).toBe('1 /tmp\n')
  await ok('stop', 'chosen')
  await ok('start', 'chosen')
  expect(await ok('exec', 'chosen', '--', 'pwd')).toBe('/workspace\n')
  await ok('rm', '-f', 'chosen')
  const doctor = await cli.run(['doctor'], { env: WITHOUT_KVM })
  expect(doctor.stdout).toMatch(/ok +backend docker: runtime runc: known to the engine/)
  expect(doctor.stdout).toMatch(/backend docker: runtime kata: the engine has no runtime kata/)
  const absent = await cli.run(['new', 'no', '--backend', 'docker', '--runtime', 'kata'])
  expect(absent.stderr).toContain('add it to the engine’s daemon.json')
  const meant = await cli.run(['new', 'no', '--runtime', 'runc'])
  expect(meant.stderr).toContain('/no/such/runc')
  const unknown = await cli.run(['new', 'no', '--runtime', 'nvidia'])
  expect(unknown.stderr).toContain('backends.docker.runtimes names runc, kata')
  expect(await ok('ls', '--all')).not.toContain('no ')
})

test('when the engine is killed, its sessions fail with a reason, and can be started again', async () => {
  await ok('new', 'survivor', '--backend', 'docker')
  await ok('exec', 'survivor', '-c', 'echo kept > f')
  process.kill(Number(readFileSync(join(folder, 'docker.pid'), 'utf8')), 'SIGKILL')
  const shown = async () => JSON.parse(await ok('inspect', 'survivor', '--json'))
  await deadline('the session has failed', async () => (await shown()).status === 'failed')
  expect(await shown()).toMatchObject({ reason: 'runner_exited', error_message: expect.stringMatching(/container/) })
  // The next engine must come up first.
  await deadline('it starts again', async () => (await cli.run(['start', 'survivor'])).code === 0, 60_000)
  expect(await ok('exec', 'survivor', '-c', 'cat f')).toBe('kept\n')
  await ok('rm', '-f', 'survivor')
})

test('new prints a note if auto chose docker because oci is unavailable, and ls shows the backend', async () => {
  // Of the runtimes that oci could use, none is there.
  const env = { SANDGLASS_BACKENDS_OCI_RUNTIME: '/no/such/runtime' }
  await ok('shutdown')
  const made = await cli.run(['new', 'other'], { env })
  expect(made).toMatchObject({ code: 0, stderr: expect.stringContaining('note: created with the backend docker') })
  expect(await ok('ls')).toMatch(/other +running +docker +host/)
  await ok('rm', '-f', 'other')
  await ok('shutdown')
})

test('docker without a disk limit is refused unless configured, and the error names the setting', async () => {
  const strict = await CliHome.open()
  try {
    const env = { SANDGLASS_LISTEN: 'unix', SANDGLASS_BACKENDS_DOCKER_API_ENDPOINT: `unix://${join(folder, 'docker.sock')}` }
    const ran = await strict.run(['new', '--backend', 'docker'], { env })
    expect(ran).toMatchObject({ code: 3, stderr: expect.stringContaining('disk') })
    expect(ran.stderr).toContain('backends.docker.allow_unenforced')
  } finally {
    await strict.close()
  }
})
