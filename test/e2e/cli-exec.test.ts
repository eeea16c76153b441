import { execFile, execFileSync } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliHome, SANDGLASS } from './cli-home.ts'
import { deadline } from './deadline.ts'

let cli: CliHome

beforeAll(async () => {
  cli = await CliHome.open()
  expect(await cli.run(['new', 'box', '--env', 'GREETING=hello'])).toMatchObject({ code: 0 })
})
afterAll(() => cli.close())

const run = (...args: string[]) => cli.run(args)
const sh = (text: string) => cli.run(['exec', 'box', '-c', text])

test('a shell keeps its folder, variables and functions from one command to the next', async () => {
  expect(await sh('cd /tmp; export A=1; f() { echo "f $A $PWD $GREETING"; }')).toMatchObject({ code: 0, stdout: '' })
  expect(await sh('f')).toMatchObject({ code: 0, stdout: 'f 1 /tmp hello\n' })
  expect(await run('exec', 'box', '--shell', 'second', '-c', 'echo "[$A]"')).toMatchObject({ stdout: '[]\n' })
})

test('the exit code is that of the command, and 125 when Sandglass fails', async () => {
  const code = async (...args: string[]) => (await run('exec', 'box', ...args)).code
  expect(await code('-c', '(exit 7)')).toBe(7)
  expect(await code('--', 'sh', '-c', 'exit 9')).toBe(9)
  expect(await code('--', 'sh', '-c', 'kill -KILL $$')).toBe(137)
  expect(await code('--timeout', '300ms', '--', 'sleep', '60')).toBe(124)
  expect(await code('--timeout', '300ms', '-c', 'sleep 60')).toBe(124)
  expect(await code('--', '/no/such/program')).toBe(127)
  expect((await run('exec', 'box', '--', '/no/\x1b]0;x')).stderr).toContain('\\x1b]0;x')
  expect(await code('--', '/etc/hostname')).toBe(126)
  expect((await run('exec', 'nobody', '--', 'true')).code).toBe(125)
  expect((await run('exec', 'nobody', '-c', 'true')).code).toBe(125)
  expect(await code('--timeout', '1h', '-c', 'true')).toBe(0)
  expect(await code()).toBe(2)
  expect(await code('-c', 'true', '--', 'true')).toBe(2)
  expect((await run('exec', 'box', 'ls', '-la')).stderr).toContain('write -- before a program')
})

test('a command that the memory limit ended is reported with the limit and how to raise it', async () => {
  const [code, hog] = [137, 'b = bytearray(700 << 20)']
  const stderr = expect.stringMatching(
    /session box reached its memory limit of 512 MiB, and the kernel killed a process in it\n {2}next: sandglass resize box --memory 1g, or sandglass new --memory 1g\n/,
  )
  expect(await sh(`python3 -c '${hog}'`)).toMatchObject({ code, stderr })
  expect(await run('exec', 'box', '--', 'python3', '-c', hog)).toMatchObject({ code, stderr })
  const limit_hit = { limit: 'memory_mb', value: 512 }
  for (const argv of [
    ['-c', `python3 -c '${hog}'`],
    ['--', 'python3', '-c', hog],
  ]) {
    const ran = await run('exec', 'box', '--json', ...argv)
    expect([ran.code, JSON.parse(ran.stdout)]).toMatchObject([code, { exit_code: code, limit_hit }])
  }
})

test('a program has its own stdout and stderr, user, folder and variables', async () => {
  const ran = await run(
    'exec',
    'box',
    '--user',
    'root',
    '--cwd',
    '/tmp',
    '--env',
    'X=a b',
    '--',
    'sh',
    '-c',
    'id -u; pwd; echo "$X" >&2',
  )
  expect(ran).toMatchObject({ code: 0, stdout: '0\n/tmp\n', stderr: 'a b\n' })
})

test('stdin is piped into a program and into a shell command, which keeps its state', async () => {
  const input = Buffer.alloc(3_000_000, 'abc\n')
  expect(await cli.run(['exec', 'box', '--', 'sha1sum'], { input })).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^[0-9a-f]{40} {2}-\n$/),
  })
  expect(await cli.run(['exec', 'box', '-c', 'wc -c; cd /workspace'], { input })).toMatchObject({
    code: 0,
    stdout: '3000000\n',
  })
  expect(await cli.run(['exec', 'box', '-c', 'read -r first; pwd; echo "$first"'], { input: 'one\ntwo\n' })).toMatchObject({
    stdout: '/workspace\none\n',
  })
  expect(await cli.run(['exec', 'box', '--no-stdin', '--', 'cat'], { input: 'x' })).toMatchObject({ code: 0, stdout: '' })
  expect((await sh('ls -A /tmp | grep sandglass-stdin')).stdout).toBe('')
})

test('unreadable stdin is reported, and the command does not wait for it', async () => {
  for (const command of [
    ['-c', 'cat; echo done'],
    ['--', 'sh', '-c', 'cat; echo done'],
  ]) {
    const script = `"$0" exec box ${command.map(word => `'${word}'`).join(' ')} < /proc/self/mem`
    const ran = await promisify(execFile)('sh', ['-c', script, SANDGLASS], { env: cli.env, timeout: 30_000 })
    expect(ran).toMatchObject({ stdout: 'done\n', stderr: expect.stringContaining('stdin could not be sent: EIO') })
  }
})

test('output is printed while the command runs, and is complete at any size', async () => {
  let hadFirst = false
  const streamed = await cli.run(['exec', 'box', '-c', 'echo first; until [ -e /tmp/go ]; do sleep 0.05; done; echo last'], {
    onStdout: text => {
      if (!hadFirst && text.includes('first')) {
        hadFirst = true
        void cli.run(['exec', 'box', '--', 'touch', '/tmp/go'])
      }
    },
  })
  expect(streamed.stdout).toBe('first\nlast\n')
  const big = await run('exec', 'box', '--', 'sh', '-c', 'head -c 20000000 /dev/zero | tr "\\0" x')
  expect(big.stdout.length).toBe(20_000_000)
})

test('escape sequences are removed from shell output unless --raw', async () => {
  const text = String.raw`printf '\033]52;c;aGk=\007\033[31mred\033[0m\n'`
  expect((await sh(text)).stdout).toBe('red\n')
  expect((await run('exec', 'box', '--raw', '-c', text)).stdout).toContain('\x1b[31mred')
})

test('Ctrl-C interrupts a program and a shell command, and the shell stays', async () => {
  // The echo of the key is output too, so each is sent once.
  const interrupt = {
    onStdout: (text: string, kill: (signal: NodeJS.Signals) => void) => void (text === 'up\n' && kill('SIGINT')),
  }
  expect((await cli.run(['exec', 'box', '--', 'sh', '-c', 'echo up; exec sleep 60'], interrupt)).code).toBe(130)
  expect((await sh('STAYS=yes')).code).toBe(0)
  expect((await cli.run(['exec', 'box', '-c', 'echo up; sleep 60'], interrupt)).code).toBe(130)
  expect((await sh('echo $STAYS')).stdout).toBe('yes\n')
})

const IGNORES = `trap 'echo int' INT; echo up; while :; do sleep 0.1; done`

test.each([
  ['a program', ['--', 'sh', '-c', IGNORES]],
  ['a shell command', ['-c', `bash -c "${IGNORES}"`]],
])('the third Ctrl-C kills %s that ignores it, and the second announces that', async (_, args) => {
  let sent = 0
  const ran = await cli.run(['exec', 'box', ...args], {
    onStdout: (text, kill) => {
      const isDue = [text.startsWith('up'), text.split('int').length > 1][sent]
      if (isDue && sent++ < 2) kill('SIGINT')
    },
    onStderr: (text, kill) => void (text.endsWith('once more kills it\n') && kill('SIGINT')),
  })
  expect(ran).toMatchObject({ code: 130, stderr: expect.stringContaining('Ctrl-C once more kills it') })
  await deadline('it is gone', async () => (await run('exec', 'box', '--', 'pgrep', '-f', 'trap .echo in[t]')).code === 1)
  expect((await sh('echo free')).stdout).toBe('free\n')
})

test('a second SIGTERM kills a program that ignores the first', async () => {
  const ran = await cli.run(['exec', 'box', '--', 'sh', '-c', `trap 'echo term' TERM; echo up; while :; do sleep 0.1; done`], {
    onStdout: (text, kill) => void ((text === 'up\n' || text.endsWith('term\n')) && kill('SIGTERM')),
  })
  expect(ran.code).toBe(143)
  await deadline('it is gone', async () => (await run('exec', 'box', '--', 'pgrep', '-f', 'trap .echo ter[m]')).code === 1)
})

test('a timeout is reported with its length, and nothing else is printed', { timeout: 60_000 }, async () => {
  expect(await run('exec', 'box', '--timeout', '1s', '--', 'sleep', '60')).toMatchObject({
    code: 124,
    stdout: '',
    stderr: expect.stringMatching(/^sandglass: ended after 1s \(--timeout\)\n {2}next: .*--timeout/),
  })
  expect(await run('exec', 'box', '--timeout', '300ms', '-c', 'sleep 60')).toMatchObject({
    code: 124,
    stdout: '',
    stderr: expect.stringContaining('ended after 300ms (--timeout)'),
  })
  expect((await run('exec', 'box', '--timeout', '8s', '-c', 'echo; echo one; sleep 60')).stdout).toBe('\none\n')
  expect((await sh('echo; echo one; echo')).stdout).toBe('\none\n\n')
})

/** Keeps the shell busy until the file exists; resolves when the command has started. */
async function occupy(shell: string, file: string): Promise<() => Promise<unknown>> {
  const text = `echo up; until [ -e ${file} ]; do sleep 0.05; done`
  const begun = Promise.withResolvers<void>()
  const ended = cli.run(['exec', 'box', '--shell', shell, '-c', text], { onStdout: () => begun.resolve() })
  await begun.promise
  return async () => {
    await run('exec', 'box', '--', 'touch', file)
    return ended
  }
}

test('the wait for a busy shell is reported, counts towards the timeout, and ends at Ctrl-C', { timeout: 60_000 }, async () => {
  const free = await occupy('busy', '/tmp/free')
  // The wait is reported after a second of it.
  const timedOut = await run('exec', 'box', '--shell', 'busy', '--timeout', '8s', '-c', 'touch /tmp/late')
  expect(timedOut).toMatchObject({
    code: 124,
    stderr: expect.stringMatching(
      /^sandglass: waiting for shell busy: it is running another command\nsandglass: the command never ran: shell busy was busy for 8s \(--timeout\)\n/,
    ),
  })
  const left = await cli.run(['exec', 'box', '--shell', 'busy', '-c', 'touch /tmp/late'], {
    onStderr: (text, kill) => void (text.includes('waiting for shell busy') && kill('SIGINT')),
  })
  expect(left.code).toBe(130)
  expect(await free()).toMatchObject({ code: 0 })
  expect((await run('exec', 'box', '--', 'ls', '/tmp/late')).code).toBe(2)
})

test('a killed sandglass ends its command, and interrupt ends the command of a shell', async () => {
  await cli.run(['exec', 'box', '-c', 'STAYS=yes; echo up; sleep 1000'], {
    onStdout: (text, kill) => void (text === 'up\n' && kill('SIGKILL')),
  })
  expect((await sh('echo $STAYS')).stdout).toBe('yes\n')
  const free = await occupy('second', '/tmp/second')
  expect(await run('interrupt', 'box', '--shell', 'second')).toMatchObject({ code: 0, stdout: 'box  second interrupted\n' })
  expect(await free()).toMatchObject({ code: 130 })
  expect((await run('interrupt', 'box')).stdout).toBe('box  no command is running in main\n')
  expect(JSON.parse((await run('interrupt', 'box', '--json')).stdout)).toEqual({ interrupted: false })
  expect((await run('interrupt', 'box', '--shell', 'nobody')).code).toBe(4)
})

test('a command line has its own user, folder and variables, and the shell keeps its own', async () => {
  await sh('cd /tmp; X=shell')
  const settings = ['--cwd', '/usr', '--env', 'X=a b', '--env', 'Y=c']
  expect(await run('exec', 'box', ...settings, '-c', 'pwd; echo "$X $Y"; sh -c "echo \\$Y"; Z=kept')).toMatchObject({
    code: 0,
    stdout: '/usr\na b c\nc\n',
  })
  expect((await sh('pwd; echo "$X [$Y] $Z"')).stdout).toBe('/tmp\nshell [] kept\n')
  expect((await run('exec', 'box', '--user', 'root', '-c', 'id -u; echo "[$Z]"')).stdout).toBe('0\n[]\n')
  expect((await cli.run(['exec', 'box', '--user', 'root', '-c', 'cat'], { input: 'for root' })).stdout).toBe('for root')
  expect(await run('exec', 'box', '--cwd', '/nowhere', '-c', 'echo ran')).toMatchObject({
    code: 125,
    stdout: '',
    stderr: expect.stringContaining('/nowhere'),
  })
})

test('stdin is empty without a pipe, and ended programs are not jobs of the shell', async () => {
  const script = `"$0" exec box -c 'read y; echo "$? [$y]"; cat; jobs' </dev/null`
  const ran = await promisify(execFile)('sh', ['-c', script, SANDGLASS], { env: cli.env, timeout: 30_000 })
  expect(ran.stdout).toBe('1 []\n')
  expect((await sh('sleep 1000 & ls -d /; jobs')).stdout).toMatch(/^\/\n\[1\]\+ +Running +sleep 1000 &\n$/)
  await sh('kill %1')
})

test('--json prints one reply with the exit code, and exits with it', async () => {
  const reply = async (...args: string[]) => {
    const { code, stdout, stderr } = await run('exec', 'box', '--json', ...args)
    expect(stderr).toBe('')
    return { code, ...JSON.parse(stdout) }
  }
  const shell = await reply('-c', 'cd /tmp; echo "in the shell"; (exit 3)')
  expect(shell).toMatchObject({
    code: 3,
    exit_code: 3,
    cwd: '/tmp',
    output: 'in the shell\n',
    truncated: false,
    timed_out: false,
  })
  expect(await reply('--', 'sh', '-c', 'echo out; echo err >&2; exit 4')).toMatchObject({
    code: 4,
    exit_code: 4,
    stdout: 'out\n',
    stderr: 'err\n',
    timed_out: false,
    shell_exited: false,
    duration_ms: expect.any(Number),
  })
  expect(await reply('--timeout', '300ms', '--', 'sleep', '60')).toMatchObject({ code: 124, exit_code: 124, timed_out: true })
  const long = await reply('--', 'sh', '-c', 'head -c 3000000 /dev/zero | tr "\\0" x; echo end')
  expect(long).toMatchObject({ truncated: true, output: expect.stringMatching(/^x+end\n$/) })
  expect(long.output.length).toBe(1024 * 1024)
  expect(shell).toMatchObject({ shell: 'main', timeout_ms: null, started: true })
  const cut = await reply('-c', 'head -c 3000000 /dev/zero | tr "\\0" x; echo end')
  expect([cut.truncated, cut.output.length, cut.output.endsWith('xend\n')]).toEqual([true, 1024 * 1024, true])
  const piped = await cli.run(['exec', 'box', '--json', '-c', 'cat'], { input: 'from stdin' })
  expect(JSON.parse(piped.stdout).output).toBe('from stdin')
})

test('a command ends when the reader of its output goes away', async () => {
  const first = execFileSync(
    'sh',
    ['-c', `"$0" exec box -- yes marker-1 | head -1; "$0" exec box -c "yes marker-2" </dev/null | head -1`, SANDGLASS],
    { env: cli.env },
  )
  expect(first.toString()).toBe('marker-1\nmarker-2\n')
  await deadline(
    'yes has ended',
    async () => !(await sh('cat /proc/[0-9]*/cmdline | tr "\\0" " "')).stdout.includes('yes marker'),
  )
})

test('stdin reaches a command line of root, and a command line that empties /tmp', async () => {
  const asRoot = await cli.run(['exec', 'box', '--user', 'root', '-c', 'cat'], { input: 'for root' })
  expect(asRoot).toMatchObject({ code: 0, stdout: 'for root', stderr: '' })
  expect((await sh('ls -A /tmp')).stdout).not.toContain('sandglass-stdin')
  const emptied = await cli.run(['exec', 'box', '-c', 'cat; rm -rf /tmp/.sandglass-stdin*'], { input: 'kept' })
  expect(emptied).toMatchObject({ code: 0, stdout: 'kept', stderr: '' })
})
