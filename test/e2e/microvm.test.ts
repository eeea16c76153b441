// Sessions on the microvm backend through the command line and a daemon, with an empty data folder.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliHome, isAlive, SANDGLASS } from './cli-home.ts'
import { deadline } from './deadline.ts'

let cli: CliHome
// Emulated machines are slow, and other tests run at the same time.
const TIMEOUT = { timeout: 300_000 }

beforeAll(async () => {
  cli = await CliHome.open()
  mkdirSync(join(cli.home, '.sandglass'), { mode: 0o700 })
  const config = { listen: ['unix'], backends: { microvm: { disk_format: 'raw' } } }
  writeFileSync(join(cli.home, '.sandglass/config.yaml'), JSON.stringify(config), { mode: 0o600 })
})
afterAll(async () => await cli?.close())

const ok = async (...args: string[]) => {
  const ran = await cli.run(args)
  expect(ran, ran.stderr).toMatchObject({ code: 0 })
  return ran.stdout
}
const inspect = async (name: string) => JSON.parse(await ok('inspect', name, '--json'))

test('the first session shows progress, and can be used, paused, stopped, started and removed', TIMEOUT, async () => {
  const made = await cli.run(['new', 'box', '--backend', 'microvm'])
  expect(made, made.stderr).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/programs to a disk, once: \d+ (of about \d+ )?MiB/),
  })
  // With KVM the start is so fast that no progress is shown.
  if ((await cli.run(['doctor'])).stdout.includes('TCG')) expect(made.stderr).toMatch(/starting the session\n$/)
  const { id, ...shown } = await inspect('box')
  expect(shown).toMatchObject({ backend: 'microvm', status: 'running', unenforced: [] })
  const [ours, theirs] = [readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'), '/proc/sys/kernel/random/boot_id']
  expect(await ok('exec', 'box', '--', 'cat', theirs)).not.toBe(ours)
  await ok('exec', 'box', '-c', 'cd /tmp; export KEPT=yes; echo mine > ~/f')
  await ok('pause', 'box')
  await ok('resume', 'box')
  expect(await ok('exec', 'box', '-c', 'echo $KEPT $PWD')).toBe('yes /tmp\n')
  expect(await ok('logs', 'box', '--boot')).toContain('sandglass:')
  expect(existsSync(join(cli.dataDir, 'sessions', id, 'disk.raw'))).toBe(true)
  await ok('stop', 'box')
  await ok('start', 'box')
  expect(await ok('exec', 'box', '--', 'cat', '/home/sandbox/f')).toBe('mine\n')
  await ok('rm', '-f', 'box')
  expect(existsSync(join(cli.dataDir, 'sessions', id))).toBe(false)
})

test('Ctrl-C during a create says that the create continues, and how to end it', TIMEOUT, async () => {
  // A size without a snapshot, so that the machine boots.
  const args = ['new', 'late', '--backend', 'microvm', '--memory-mb', '700']
  const making = spawn(SANDGLASS, args, { env: cli.env, stdio: ['ignore', 'ignore', 'pipe'] })
  const [said, ended] = [text(making.stderr), once(making, 'exit')]
  await deadline('it is being made', async () => (await ok('ls', '--json')).includes('"late"'), 120_000)
  making.kill('SIGINT')
  expect(await ended).toEqual([null, 'SIGINT'])
  expect(await said).toContain('`sandglass rm -f late` ends it')
  await ok('rm', '-f', 'late')
})

test('a daemon that is killed and restarted finds its machines and their shells', TIMEOUT, async () => {
  await ok('new', 'found', '--backend', 'microvm')
  await ok('exec', 'found', '-c', 'cd /tmp; X=1')
  const { daemonPid } = cli
  process.kill(daemonPid, 'SIGKILL')
  await deadline('the daemon is gone', () => !isAlive(daemonPid))
  expect(await ok('exec', 'found', '-c', 'echo $X $PWD')).toBe('1 /tmp\n')
  await ok('rm', '-f', 'found')
})

test('a session whose QEMU is killed fails with a reason, and can be started again', TIMEOUT, async () => {
  await ok('new', 'survivor', '--backend', 'microvm', '--persist')
  await ok('exec', 'survivor', '-c', 'echo kept > f; sync f')
  const { id } = await inspect('survivor')
  process.kill(JSON.parse(readFileSync(join(cli.dataDir, 'sessions', id, 'state.json'), 'utf8')).pid, 'SIGKILL')
  await deadline('the session has failed', async () => (await inspect('survivor')).status === 'failed')
  expect(await inspect('survivor')).toMatchObject({ reason: 'runner_exited', error_message: expect.stringContaining('QEMU') })
  await ok('start', 'survivor')
  expect(await ok('exec', 'survivor', '-c', 'cat f')).toBe('kept\n')
  await ok('rm', '-f', 'survivor')
})

test('nested virtualisation is off, with a message, if the host does not support it', TIMEOUT, async () => {
  const made = await cli.run(['new', 'nested', '--backend', 'microvm', '--nested-virt', '--no-start'])
  expect(made, made.stderr).toMatchObject({ code: 0 })
  expect(made.stderr.includes('without nested virtualisation')).toBe(!(await inspect('nested')).nested_virt)
  await ok('rm', '-f', 'nested')
})

test('a request that no virtual machine can meet creates no session', async () => {
  const ran = await cli.run(['new', '--backend', 'microvm', '--runtime', 'crun'])
  expect(ran).toMatchObject({ stderr: expect.stringContaining('OCI runtime with microvm') })
  expect(ran.code).not.toBe(0)
  expect(JSON.parse(await ok('ls', '--json'))).toEqual([])
})
