import { spawn } from 'node:child_process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliHome, SANDGLASS } from './cli-home.ts'
import { deadline } from './deadline.ts'

let cli: CliHome

beforeAll(async () => {
  cli = await CliHome.open()
  expect(await cli.run(['ls'])).toMatchObject({ code: 0 }) // the daemon runs
})
afterAll(() => cli.close())

const run = (...args: string[]) => cli.run(args)

test('new prints name and id, ls lists the session, and inspect shows all of it', async () => {
  const made = await run('new', 'box', '--ttl-seconds', '1h', '--env', 'GREETING=hello', '--label', 'kind=test')
  expect(made).toMatchObject({ code: 0, stderr: expect.stringMatching(/^(starting the session\n)?$/) })
  expect(made.stdout).toMatch(/^box {2}sess_[a-z0-9]{16}\n$/)
  expect((await run('ls')).stdout).toMatch(
    /^ID +NAME +STATUS +BACKEND +IMAGE +CREATED +EXPIRES\nsess_\w+ +box +running +oci +host +\S+ ago +in \S+/,
  )
  const [listed] = JSON.parse((await run('ls', '--json', '--label', 'kind=test')).stdout)
  expect(listed).toMatchObject({
    name: 'box',
    status: 'running',
    ttl_seconds: 3600,
    env_names: ['GREETING'],
    labels: { kind: 'test' },
  })
  expect((await run('inspect', 'box')).stdout).toMatch(/^status +running$/m)
  expect(JSON.parse((await run('inspect', 'box', '--json')).stdout)).toMatchObject({ id: listed.id })
  expect(await run('new', 'box')).toMatchObject({ code: 5, stderr: expect.stringContaining('already exists') })
  expect(await run('inspect', 'nobody')).toMatchObject({ code: 4, stdout: '' })
})

test('ls --json and inspect --json carry the fields of sessions.json and sandboxes.json', async () => {
  const flags = ['--timeout-sec', '1h', '--memory', '512', '--cpus', '1', '--persist', '--no-start']
  expect(await run('new', 'registered', ...flags)).toMatchObject({ code: 0 })
  const inspected = JSON.parse((await run('inspect', 'registered', '--json')).stdout)
  const listed: { name: string }[] = JSON.parse((await run('ls', '--json')).stdout)
  expect(listed.find(({ name }) => name === 'registered')).toEqual(inspected)
  expect(inspected).toMatchObject({
    id: expect.stringMatching(/^sess_/),
    agent: null,
    prompt: null,
    status: 'stopped',
    created_at: expect.stringMatching(/Z$/),
    timeout: 3600,
    name: 'registered',
    project_path: null,
    backend: 'oci',
    started_at: null,
    ports: null,
  })
  expect(inspected.config).toEqual({
    memory: 512,
    vcpus: 1,
    nested_virt: false,
    network: 'none',
    sync_mode: null,
    sync_idle_seconds: null,
    env_files: null,
    persist: true,
  })
  expect((await run('inspect', 'registered')).stdout).not.toMatch(/^(config|timeout) /m)
  await run('rm', '-f', 'registered')
})

test('lifecycle commands print the new state', async () => {
  expect((await run('new', 'other', '--no-start', '--json')).stdout).toContain('"status": "stopped"')
  expect(await run('start', 'other')).toMatchObject({ code: 0, stdout: 'other  running\n' })
  expect(await run('pause', 'other')).toMatchObject({ code: 0, stdout: 'other  paused\n' })
  expect(await run('exec', 'other', '-c', 'true')).toMatchObject({ code: 125, stderr: expect.stringContaining('it is paused') })
  expect(await run('resume', 'other')).toMatchObject({ code: 0, stdout: 'other  running\n' })
  expect(await run('renew', 'other', '--ttl-seconds', '2h')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^other {2}ends in 2h, at \d{4}-\d\d-\d\dT[\d:.]+Z\n$/),
  })
  expect(JSON.parse((await run('inspect', 'other', '--json')).stdout).ttl_seconds).toBe(7200)
  expect(await run('stop', 'other')).toMatchObject({
    code: 0,
    stdout: 'other  stopped\n',
    stderr: expect.stringMatching(/^note: the files of other, but for \/tmp, are kept until \d{4}-/),
  })
  expect(await run('renew', 'other', '--ttl', '1h')).toMatchObject({
    stdout: expect.stringMatching(/^other {2}is removed in .*; ttl 1h from its next start\n$/),
  })
  expect(await run('start', 'nothere', 'other')).toMatchObject({
    code: 4,
    stdout: 'other  running\n',
    stderr: expect.stringContaining('no session nothere'),
  })
  expect(JSON.parse((await run('stop', 'other', 'nothere', '--json')).stdout)).toMatchObject([{ status: 'stopped' }])
  expect((await run('ls')).stdout).toMatch(/other +stopped .* is removed in (7d|6d 23h)/)
  expect(await run('stop', 'other')).toMatchObject({ code: 5 })
  expect(await run('rm', 'other')).toMatchObject({ code: 2, stderr: expect.stringContaining('pass -f') })
  expect(await run('rm', '-f', 'nobody', 'other')).toMatchObject({ code: 0, stdout: 'other\n' })
  expect((await run('ls', '--all')).stdout).toMatch(/other +terminated/)
  expect((await run('ls')).stdout).not.toContain('other')
})

test('a stopped or persistent session keeps its files after its ttl', { timeout: 120_000 }, async () => {
  const made = {
    stopped: ['--on-expiry', 'end'],
    'stopped-persistent': ['--persist'],
    'paused-persistent': ['--persist'],
    'idle-persistent': ['--persist'],
    ended: [],
  }
  await Promise.all(
    Object.entries(made).map(async ([name, flags]) => {
      expect(await run('new', name, ...flags)).toMatchObject({ code: 0 })
      expect(await run('exec', name, '-c', 'echo kept > note')).toMatchObject({ code: 0 })
      if (name.startsWith('stopped')) expect(await run('stop', name)).toMatchObject({ code: 0 })
      if (name.startsWith('paused')) expect(await run('pause', name)).toMatchObject({ code: 0 })
    }),
  )
  expect(await run('renew', '--ttl-seconds', '1', ...Object.keys(made))).toMatchObject({ code: 0 })
  const states = async () => {
    const all: { name: string; status: string }[] = JSON.parse((await run('ls', '--all', '--json')).stdout)
    return Object.fromEntries(all.map(({ name, status }) => [name, status]))
  }
  await deadline(
    'the ttl of every session ends',
    async () => {
      const now = await states()
      return now.ended === 'timeout' && now['paused-persistent'] === 'stopped' && now['idle-persistent'] === 'stopped'
    },
    40_000,
  )
  const kept = Object.keys(made).filter(name => name !== 'ended')
  expect(await run('renew', '--ttl', '1h', ...kept)).toMatchObject({ code: 0 })
  for (const name of kept) {
    expect(await run('start', name)).toMatchObject({ code: 0, stdout: `${name}  running\n` })
    expect(await run('exec', name, '-c', 'cat note')).toMatchObject({ code: 0, stdout: 'kept\n' })
  }
  expect(await run('start', 'ended')).toMatchObject({ code: 5 })
  await run('rm', '-f', ...Object.keys(made))
})

test('a persistent session may have no ttl', async () => {
  const { stdout } = await run('new', 'endless', '--persist', '--ttl-seconds', 'none', '--no-start', '--json')
  expect(JSON.parse(stdout)).toMatchObject({ ttl_seconds: null, on_expiry: 'stop', kept_until: null })
  expect(await run('renew', 'endless')).toMatchObject({ code: 0, stdout: 'endless  does not expire\n' })
  expect(await run('renew', 'endless', '--ttl', '2h')).toMatchObject({
    stdout: 'endless  does not expire; ttl 2h from its next start\n',
  })
  await run('start', 'endless')
  expect((await run('ls')).stdout).toMatch(/endless .*(in 2h|in 1h 59m)/)
  expect((await run('renew', 'endless', '--ttl', '1h')).stdout).toMatch(/^endless {2}stops in 1h, at /)
  expect((await run('renew', 'endless', '--ttl', 'none')).stdout).toBe('endless  does not expire\n')
  expect(await run('renew', 'endless', '--ttl', '1h', '--ttl-seconds', '60')).toMatchObject({ code: 2 })
  expect(await run('new', 'endless-not', '--ttl-seconds', 'none')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--ttl-seconds: only a persistent session can have none\n'),
  })
  await run('rm', '-f', 'endless')
})

test('resize changes limits and prints them', async () => {
  expect(await run('new', 'grows')).toMatchObject({ code: 0 })
  expect(await run('resize', 'grows', '--memory-mb', '1GB', '--cpu-cores', '1')).toMatchObject({
    code: 0,
    stdout: 'grows  1 cpu  1024 MiB  256 processes\n',
  })
  expect(JSON.parse((await run('inspect', 'grows', '--json')).stdout)).toMatchObject({ cpu_cores: 1, memory_mb: 1024 })
  expect(await run('resize', 'grows')).toMatchObject({ code: 2, stderr: expect.stringContaining('give at least one of') })
  expect(await run('resize', 'grows', '--memory-mb', '1TB')).toMatchObject({ code: 2 })
})

test('sizes may have a unit', async () => {
  const { stdout } = await run('new', 'sized', '--memory-mb', '1GB', '--disk-mb', '2GiB', '--no-start', '--json')
  expect(JSON.parse(stdout)).toMatchObject({ memory_mb: 1024, disk_mb: 2048 })
})

test('logs --boot shows the boot log, and with -f state changes until the session ends', async () => {
  await run('new', 'brief')
  expect((await run('logs', 'brief', '--boot')).code).toBe(0)
  expect(JSON.parse((await run('logs', '--json', '--boot', 'brief')).stdout)).toEqual({ log: expect.any(String) })
  const begun = Promise.withResolvers<void>()
  const [onStdout, onStderr] = [() => begun.resolve(), () => begun.resolve()]
  const following = cli.run(['logs', '--boot', '-f', 'brief'], { onStdout, onStderr })
  // It prints the boot log, or that there is none, before it follows.
  await Promise.race([begun.promise, following])
  await run('rm', '-f', 'brief')
  const followed = await following
  expect(followed.code).toBe(0)
  expect(followed.stdout).toMatch(/session\.terminated requested\n$/)
})

test('forward carries many connections at once, and ports lists the listening ports', async () => {
  await run(
    'exec',
    'box',
    '-c',
    'cd /tmp && mkdir -p www && echo served > www/index.html && (python3 -m http.server 8123 --bind 127.0.0.1 -d www >/dev/null 2>&1 &)',
  )
  await deadline('the port is listed', async () => (await run('ports', 'box')).stdout.includes('8123'))
  const forward = spawn(SANDGLASS, ['forward', 'box', '0:8123', '--json'], { env: cli.env })
  let said = ''
  forward.stdout.on('data', text => {
    said += text
  })
  await deadline('forward says its port', () => said.includes('\n'))
  const { local, remote }: { local: number; remote: number } = JSON.parse(said)
  expect(remote).toBe(8123)
  const replies = await Promise.all(Array.from({ length: 20 }, async () => (await fetch(`http://127.0.0.1:${local}/`)).text()))
  expect(new Set(replies)).toEqual(new Set(['served\n']))
  forward.kill('SIGINT')
  const code = await new Promise(resolve => forward.once('exit', resolve))
  expect(code).toBe(0)
  expect(await run('forward', 'box', '99999')).toMatchObject({ code: 2 })
})
