import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliHome, SANDGLASS } from './cli-home.ts'
import { deadline } from './deadline.ts'
import { Tmux } from './tmux.ts'

let cli: CliHome

beforeAll(async () => {
  cli = await CliHome.open()
  expect(await cli.run(['ls'])).toMatchObject({ code: 0 })
})
afterAll(() => cli.close())

const sessions = async () =>
  JSON.parse((await cli.run(['ls', '--all', '--json'])).stdout) as { name: string; status: string; ttl_seconds: number }[]

test('run passes on output and exit code, and removes the session', async () => {
  const ran = await cli.run(['run', '--', 'sh', '-c', 'echo out; echo err >&2; exit 7'])
  expect(ran).toMatchObject({ code: 7, stdout: 'out\n', stderr: 'err\n' })
  expect(await sessions()).toEqual([])
})

test('run without -- says how to write the program, with an image or without', async () => {
  const hint = async (...words: string[]) => (await cli.run(['run', ...words])).stderr
  expect(await hint('echo', 'hi')).toContain('sandglass run -- echo hi')
  expect(await hint('./script.py', 'x')).toContain('sandglass run -- ./script.py x')
  expect(await hint('debian:12', 'ls')).toContain('sandglass run debian:12 -- ls')
  expect(await hint('host', 'ls')).toContain('sandglass run host -- ls')
})

test('run takes stdin, the flags of new, environment variables and a timeout', async () => {
  const flags = ['--memory', '300', '--name', 'a', '-e', 'WHO=me', '--rm']
  const script = 'cat; echo "$WHO"; hostname'
  expect(await cli.run(['run', 'host', ...flags, '--', 'sh', '-c', script], { input: 'piped\n' })).toMatchObject({
    code: 0,
    stdout: 'piped\nme\na\n',
  })
  expect(await cli.run(['run', '--timeout', '200ms', '--', 'sleep', '60'])).toMatchObject({
    code: 124,
    stderr: expect.stringContaining('(--timeout)'),
  })
  const reply = JSON.parse((await cli.run(['run', '--json', '--', 'echo', 'hi'])).stdout)
  expect(reply).toMatchObject({ exit_code: 0, stdout: 'hi\n' })
  expect(await sessions()).toEqual([])
})

test('run exits with 127 for a missing program, 125 for a session that was not created, 2 for a usage error', async () => {
  expect(await cli.run(['run', '--', 'no-such-program'])).toMatchObject({ code: 127 })
  expect(await cli.run(['run', '--memory', '1', '--', 'true'])).toMatchObject({
    code: 125,
    stderr: expect.stringContaining('--memory must be at least 256'),
  })
  expect(await cli.run(['run', 'ls'])).toMatchObject({ code: 2, stderr: expect.stringContaining('sandglass run -- ls') })
  expect(await cli.run(['run', 'ls', '-la'])).toMatchObject({ code: 2, stderr: expect.stringContaining('run -- ls -la') })
  expect(await cli.run(['run', '--keep', '--rm', '--', 'true'])).toMatchObject({ code: 2 })
  expect(await sessions()).toEqual([])
})

test('after a program reached the memory limit, run says how to give it more', async () => {
  expect(await cli.run(['run', '--', 'python3', '-c', 'b = bytearray(700 << 20)'])).toMatchObject({
    code: 137,
    stderr: expect.stringMatching(/the session reached its memory limit of 512 MiB, .*\n {2}next: sandglass run --memory 1g …\n/),
  })
})

test('--keep keeps the session and prints its name', async () => {
  const { code, stderr } = await cli.run(['run', '--keep', '--', 'touch', 'made'])
  const [, name = ''] = /^kept the session (run-[0-9a-f]{8})$/m.exec(stderr) ?? []
  expect(code).toBe(0)
  expect((await cli.run(['exec', name, '--', 'ls'])).stdout).toBe('made\n')
  expect(await sessions()).toMatchObject([{ name, ttl_seconds: 1800 }])
  await cli.run(['rm', '-f', '--purge', name])
})

test('--copy-in copies the current folder first', async () => {
  const cwd = join(cli.home, 'project')
  await mkdir(join(cwd, 'src'), { recursive: true })
  await writeFile(join(cwd, 'src/a.txt'), 'content\n')
  expect(await cli.run(['run', '--copy-in', '--', 'cat', 'src/a.txt'], { cwd })).toMatchObject({ code: 0, stdout: 'content\n' })
})

test('--copy-in of a folder with an unreadable file fails before the program runs', async () => {
  // This folder has files that not even root may read.
  const ran = await cli.run(['run', '--copy-in', '--', 'echo', 'ran'], { cwd: '/proc/sys/vm' })
  expect(ran).toMatchObject({ code: 125, stdout: '', stderr: expect.stringMatching(/cannot read .*compact_memory.*not copied/s) })
  expect(await sessions()).toEqual([])
})

test('a signal is forwarded to the program, and the session is removed', async () => {
  const script = 'trap "echo caught; exit 4" TERM; echo ready; while :; do sleep 0.1; done'
  const ran = await cli.run(['run', '--', 'sh', '-c', script], {
    onStdout: (text, kill) => text === 'ready\n' && kill('SIGTERM'),
  })
  expect(ran).toMatchObject({ code: 4, stdout: 'ready\ncaught\n' })
  expect(await sessions()).toEqual([])
})

test('Ctrl-C interrupts the program, and the third one ends the session of a program that ignores it', async () => {
  using tmux = new Tmux({ ...cli.env, SG: SANDGLASS }, { cols: 100, rows: 30 })
  tmux.line(`"$SG" run -- sh -c 'echo sta"rted"; exec sleep 1000'`)
  await tmux.shows(/^started$/m)
  tmux.key('C-c')
  await tmux.shows(/host\$$/m)
  tmux.line('echo "code $?"')
  await tmux.shows(/^code 130$/m)
  tmux.line(`clear; "$SG" run -- sh -c 'trap "echo ig""nored" INT; echo stub"born"; while :; do sleep 1; done'`)
  await tmux.shows(/^stubborn$/m)
  tmux.key('C-c')
  await tmux.shows(/ignored$/m)
  tmux.key('C-c')
  await tmux.shows(/Ctrl-C once more ends it/)
  tmux.key('C-c')
  await tmux.shows(/removing run-/)
  await tmux.shows(/^host\$$/m)
  await deadline('the session is gone', async () => (await sessions()).length === 0)
})

test('with --keep, a signal is forwarded to the program too, and the session stays', async () => {
  for (const signal of ['INT', 'TERM']) {
    const script = `trap "echo caught; exit 4" ${signal}; echo ready; while :; do sleep 0.1; done`
    const ran = await cli.run(['run', '--keep', '--name', 'kept', '--', 'sh', '-c', script], {
      onStdout: (text, kill) => text === 'ready\n' && kill(`SIG${signal}` as NodeJS.Signals),
    })
    expect(ran).toMatchObject({ code: 4, stdout: 'ready\ncaught\n', stderr: expect.stringContaining('kept the session kept') })
    await cli.run(['rm', '-f', '--purge', 'kept'])
  }
})

test('run -t runs the program on a terminal, and detaching removes the session', async () => {
  using tmux = new Tmux({ ...cli.env, SG: SANDGLASS }, { cols: 100, rows: 30 })
  tmux.line('"$SG" run -t -- bash --norc --noprofile')
  await tmux.shows(/^bash-\S+[$#]/m)
  tmux.line('stty size')
  await tmux.shows(/^30 100$/m)
  tmux.key('Enter')
  tmux.text('~.')
  await tmux.shows(/removing run-/)
  await deadline('the session is gone', async () => (await sessions()).length === 0)
})

test('the session of a killed run ends after its ttl, although its program still runs', { timeout: 60_000 }, async () => {
  // A ttl that a busy machine does not use up before the program runs.
  const ran = await cli.run(['run', '--ttl', '10', '--', 'sh', '-c', 'echo ready; exec sleep 1000'], {
    onStdout: (_, kill) => kill('SIGKILL'),
  })
  expect(ran.signal).toBe('SIGKILL')
  await deadline('the session ends', async () => (await sessions()).every(({ status }) => status === 'timeout'), 40_000)
})

test('the session of a run has a ttl of a minute', async () => {
  const running = cli.run(['run', '--name', 'minute', '--', 'sleep', '1000'])
  await deadline('the session runs', async () => {
    const [found] = (await sessions()).filter(({ name, status }) => name === 'minute' && status === 'running')
    return found?.ttl_seconds === 60
  })
  await cli.run(['rm', '-f', '--purge', 'minute'])
  expect(await running).toMatchObject({ code: 125 })
})
