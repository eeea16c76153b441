import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CliHome, isAlive, SANDGLASS } from './cli-home.ts'
import { deadline } from './deadline.ts'

let cli: CliHome

beforeAll(async () => {
  cli = await CliHome.open()
})
afterAll(() => cli.close())

const run = (...args: string[]) => cli.run(args)
const sh = (text: string) => cli.run(['exec', 'box', '-c', text])

describe('the daemon', () => {
  test('two commands at once start one, with a key in a private file and no TCP port', async () => {
    const runs = await Promise.all([run('ls'), run('ls'), run('ls', '--json')])
    expect(runs.map(r => r.code)).toEqual([0, 0, 0])
    expect(JSON.parse(runs[2]?.stdout ?? '')).toEqual([])
    expect(runs[0]?.stderr).toContain('sandglass new makes one')
    expect(runs[0]?.stdout).toBe('')
    expect(((await stat(join(cli.dataDir, 'api-key'))).mode & 0o777).toString(8)).toBe('600')
    const log = await readFile(join(cli.dataDir, 'daemon.log'), 'utf8')
    expect(log.match(/"msg":"listening"/g)).toHaveLength(1)
    expect(log).not.toContain('127.0.0.1')
    const key = (await readFile(join(cli.dataDir, 'api-key'), 'utf8')).trim()
    const argvAndEnv = await Promise.all(['cmdline', 'environ'].map(file => readFile(`/proc/${cli.daemonPid}/${file}`, 'utf8')))
    expect(argvAndEnv.join()).not.toContain(key)
  })

  test('a daemon that cannot start says why', async () => {
    const home = await mkdtemp(join(cli.home, 'broken-'))
    const file = join(home, 'config.yaml')
    await writeFile(file, 'no_such_key: 1\n', { mode: 0o600 })
    const broken = await cli.run(['--config', file, 'ls'], { env: { HOME: home } })
    expect(broken).toMatchObject({ code: 3, stdout: '' })
    expect(broken.stderr).toContain('unknown key no_such_key')
    expect(broken.stderr).toContain('  next: ')
    await chmod(file, 0o644)
    expect(await cli.run(['--config', file, 'ls'], { env: { HOME: home } })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('has mode 644'),
    })
  })

  test('a wrong key is refused', async () => {
    expect(await cli.run(['ls'], { env: { SANDGLASS_API_KEY: 'wrong-key-00000000' } })).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('wrong API key'),
    })
  })
})

describe('sessions', () => {
  test('new prints name and id, ls shows it, inspect tells all', async () => {
    const made = await run('new', 'box', '--ttl-seconds', '1h', '--env', 'GREETING=hello', '--label', 'kind=test')
    expect(made).toMatchObject({ code: 0, stderr: '' })
    expect(made.stdout).toMatch(/^box {2}sess_[a-z0-9]{16}\n$/)
    expect((await run('ls')).stdout).toMatch(
      /^ID +NAME +STATUS +IMAGE +CREATED +EXPIRES\nsess_\w+ +box +running +host +\S+ ago +in \S+/,
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

  test('lifecycle commands show the state they led to', async () => {
    expect((await run('new', 'other', '--no-start', '--json')).stdout).toContain('"status": "stopped"')
    expect(await run('start', 'other')).toMatchObject({ code: 0, stdout: 'other  running\n' })
    expect(await run('pause', 'other')).toMatchObject({ code: 0, stdout: 'other  paused\n' })
    expect(await run('exec', 'other', '-c', 'true')).toMatchObject({ code: 125, stderr: expect.stringContaining('it is paused') })
    expect(await run('resume', 'other')).toMatchObject({ code: 0, stdout: 'other  running\n' })
    expect(await run('renew', 'other', '--ttl-seconds', '2h')).toMatchObject({ code: 0 })
    expect(JSON.parse((await run('inspect', 'other', '--json')).stdout).ttl_seconds).toBe(7200)
    expect(await run('stop', 'other')).toMatchObject({ code: 0, stdout: 'other  stopped\n' })
    expect(await run('stop', 'other')).toMatchObject({ code: 5 })
    expect(await run('rm', 'other')).toMatchObject({ code: 2, stderr: expect.stringContaining('pass -f') })
    expect(await run('rm', '-f', 'nobody', 'other')).toMatchObject({ code: 0, stdout: 'other\n' })
    expect((await run('ls', '--all')).stdout).toMatch(/other +terminated/)
    expect((await run('ls')).stdout).not.toContain('other')
  })
})

describe('exec', () => {
  test('a shell keeps its folder, variables and functions from one command to the next', async () => {
    expect(await sh('cd /tmp; export A=1; f() { echo "f $A $PWD $GREETING"; }')).toMatchObject({ code: 0, stdout: '' })
    expect(await sh('f')).toMatchObject({ code: 0, stdout: 'f 1 /tmp hello\n' })
    expect(await run('exec', 'box', '--shell', 'second', '-c', 'echo "[$A]"')).toMatchObject({ stdout: '[]\n' })
  })

  test('exit codes are passed on, and 125 is kept for Sandglass', async () => {
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
    expect(await code('--timeout', '1h', '-c', 'true')).toBe(125)
    expect(await code()).toBe(2)
    expect(await code('-c', 'true', '--', 'true')).toBe(2)
    expect((await run('exec', 'box', 'ls', '-la')).stderr).toContain('go behind --')
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

  test('output streams while the command runs, and is whole however much it is', async () => {
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

  test('escape sequences are cleaned from shell output unless --raw', async () => {
    const text = String.raw`printf '\033]52;c;aGk=\007\033[31mred\033[0m\n'`
    expect((await sh(text)).stdout).toBe('red\n')
    expect((await run('exec', 'box', '--raw', '-c', text)).stdout).toContain('\x1b[31mred')
  })

  test('Ctrl-C reaches a program and a shell command, and the shell lives on', async () => {
    // Once each: the echo of the key is output too.
    const interrupt = {
      onStdout: (text: string, kill: (signal: NodeJS.Signals) => void) => void (text === 'up\n' && kill('SIGINT')),
    }
    expect((await cli.run(['exec', 'box', '--', 'sh', '-c', 'echo up; exec sleep 60'], interrupt)).code).toBe(130)
    expect((await sh('STAYS=yes')).code).toBe(0)
    expect((await cli.run(['exec', 'box', '-c', 'echo up; sleep 60'], interrupt)).code).toBe(130)
    expect((await sh('echo $STAYS')).stdout).toBe('yes\n')
  })

  test('a reader that goes away ends what it read', async () => {
    const { execFileSync } = await import('node:child_process')
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
})

describe('cp', () => {
  test('files and folders go in and come out the same', async () => {
    const folder = join(cli.home, 'tree')
    await mkdir(join(folder, 'sub'), { recursive: true })
    await writeFile(join(folder, 'sub/file'), 'content', { mode: 0o750 })
    await writeFile(join(folder, 'line\nbreak'), '')
    await symlink('sub/file', join(folder, 'link'))
    expect(await run('cp', folder, 'box:')).toMatchObject({ code: 0, stdout: '' })
    expect((await sh('cat /workspace/tree/link')).stdout).toBe('content')
    expect(await run('cp', 'box:tree', join(cli.home, 'back'))).toMatchObject({ code: 0 })
    expect(await readFile(join(cli.home, 'back/link'), 'utf8')).toBe('content')
    expect((await stat(join(cli.home, 'back/sub/file'))).mode & 0o777).toBe(0o750)
    expect(JSON.parse((await run('cp', '--json', 'box:tree/sub/file', join(cli.home, 'back'))).stdout)).toMatchObject({
      entries: 1,
      target: join(cli.home, 'back/file'),
    })
  })

  test('- is stdin and stdout', async () => {
    const input = Buffer.alloc(5_000_000, 'xyz')
    expect(await cli.run(['cp', '-', 'box:/tmp/piped'], { input })).toMatchObject({ code: 0 })
    expect((await run('cp', 'box:/tmp/piped', '-')).stdout.length).toBe(5_000_000)
  })

  test('a file that this machine cannot hold is refused, and a copy that is given up leaves nothing', async () => {
    await sh('mkdir -p /workspace/sparse && truncate -s 15T /workspace/sparse/bomb; truncate -s 2G /workspace/long')
    const target = join(cli.home, 'room')
    await mkdir(target)
    for (const path of ['box:sparse/bomb', 'box:sparse/.']) {
      expect(await run('cp', path, target)).toMatchObject({ code: 3, stderr: expect.stringContaining('no room for') })
    }
    expect(await readdir(target)).toEqual([])
    const given = spawn(SANDGLASS, ['cp', 'box:long', target], { env: cli.env })
    const ended = once(given, 'exit')
    await deadline('the copy has begun', async () => (await readdir(target)).some(name => name.endsWith('.part')))
    given.kill('SIGINT')
    expect(await ended).toEqual([null, 'SIGINT'])
    expect(await readdir(target)).toEqual([])
  })

  test('what a sandbox made to break out is refused and writes nothing outside', async () => {
    await sh('mkdir -p /workspace/evil/in && ln -s /etc/passwd /workspace/evil/in/abs && echo fine > /workspace/evil/fine')
    const refused = await run('cp', 'box:evil', join(cli.home, 'evil'))
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('archive refused') })
    const skipped = await run('cp', '--skip-unsafe', 'box:evil', join(cli.home, 'evil2'))
    expect(skipped).toMatchObject({ code: 0, stderr: expect.stringContaining('left out') })
    expect(await readFile(join(cli.home, 'evil2/fine'), 'utf8')).toBe('fine\n')
    expect(await run('cp', 'box:/etc/shadow', cli.home)).toMatchObject({ code: 2 })
    expect(await run('cp', 'box:no-such-file', cli.home)).toMatchObject({ code: 4 })
    expect(await run('cp', 'a', 'b')).toMatchObject({ code: 2 })
  })
})

test('forward carries many connections at once, and ports lists what listens', async () => {
  await sh(
    'cd /tmp && mkdir -p www && echo served > www/index.html && (python3 -m http.server 8123 --bind 127.0.0.1 -d www >/dev/null 2>&1 &)',
  )
  await deadline('the port is listed', async () => (await run('ports', 'box')).stdout.includes('8123'))
  const { spawn } = await import('node:child_process')
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

test('init writes a private file, keeps what is there and shows no secret; config says where values come from', async () => {
  const env = { SANDGLASS_CONFIG: join(cli.home, 'made/config.yaml') }
  const first = await cli.run(['init', '--agent', 'codex', '--api-key', 'sk-very-secret', '--default-image', 'host'], { env })
  expect(first).toMatchObject({ code: 0, stdout: '' })
  expect(((await stat(env.SANDGLASS_CONFIG)).mode & 0o777).toString(8)).toBe('600')
  await writeFile(env.SANDGLASS_CONFIG, `# mine\nlog_level: warn\n${await readFile(env.SANDGLASS_CONFIG, 'utf8')}`)
  const second = await cli.run(['init', '--sprites-token', '-'], { env, input: 'sprites-secret\n' })
  expect(second).toMatchObject({ code: 0 })
  expect(await readFile(env.SANDGLASS_CONFIG, 'utf8')).toBe(
    '# mine\nlog_level: warn\ndefault_agent: codex\nagent_api_keys:\n  codex: sk-very-secret\ndefault_image: host\nsprites_token: sprites-secret\n',
  )
  const shown = await cli.run(['config'], { env: { ...env, SANDGLASS_SESSION_TTL_SECONDS: '60' } })
  expect(shown.stdout).toMatch(/^log_level +warn +file$/m)
  expect(shown.stdout).toMatch(/^session_ttl_seconds +60 +environment$/m)
  expect(first.stderr + second.stderr + shown.stdout + shown.stderr).not.toContain('secret')
  expect(await cli.run(['init'], { env })).toMatchObject({ code: 2, stderr: expect.stringContaining('no terminal') })
  expect(await cli.run(['init', '--agent', 'gpt'], { env })).toMatchObject({ code: 2 })
})

test('doctor tells what works, as text and as JSON', async () => {
  expect(await run('doctor')).toMatchObject({ code: 0, stdout: expect.stringContaining('sessions can be created') })
  expect(JSON.parse((await run('doctor', '--json')).stdout)).toMatchObject({ ok: true })
  const missing = await cli.run(['doctor'], { env: { SANDGLASS_BACKENDS_OCI_RUNTIME: '/no/such/runtime' } })
  expect(missing).toMatchObject({ code: 3, stdout: expect.stringContaining('fix: ') })
})

test('completion offers commands, flags and the names of sessions', async () => {
  const lines = async (...words: string[]) => (await run('__complete', ...words)).stdout.split('\n').filter(Boolean)
  expect(await lines('re')).toEqual(['resume', 'renew'])
  expect(await lines('exec', '--ti')).toEqual(['--timeout'])
  expect(await lines('exec', 'b')).toEqual(['box'])
  expect(await lines('completion', '')).toEqual(['bash', 'zsh'])
  const { execFileSync } = await import('node:child_process')
  const script = `PATH="$(dirname "$0"):$PATH"; eval "$("$0" completion bash)"; COMP_WORDS=(sandglass shell b); COMP_CWORD=2; _sandglass; echo "\${COMPREPLY[@]}"`
  expect(execFileSync('bash', ['-c', script, SANDGLASS], { env: cli.env }).toString()).toBe('box\n')
})

test('logs shows the boot log, and -f goes on with state changes until the session ends', async () => {
  await run('new', 'brief')
  expect((await run('logs', 'brief')).code).toBe(0)
  const following = run('logs', '-f', 'brief')
  await run('rm', '-f', 'brief')
  const followed = await following
  expect(followed.code).toBe(0)
  expect(followed.stdout).toMatch(/session\.terminated requested\n$/)
})

test('a daemon that was killed is started again and knows its sessions', async () => {
  const before = cli.daemonPid
  process.kill(before, 'SIGKILL')
  await deadline('the daemon is gone', () => !isAlive(before))
  expect(await sh('cd /tmp; echo $GREETING')).toMatchObject({ code: 0, stdout: 'hello\n' })
  expect(cli.daemonPid).not.toBe(before)
})

test('the script works through a link from another folder, and an old Node is told so', async () => {
  const link = join(cli.home, 'sg')
  await symlink(SANDGLASS, link)
  const { execFileSync, spawnSync } = await import('node:child_process')
  expect(execFileSync(link, ['version'], { cwd: '/', env: cli.env }).toString()).toMatch(/^sandglass \d+\.\d+\.\d+\n$/)
  const entry = join(SANDGLASS, '../packages/cli/bin/sandglass.mjs')
  const old = spawnSync(
    'node',
    ['-e', `Object.defineProperty(process.versions,'node',{value:'20.1.0'}); import(${JSON.stringify(entry)})`],
    { env: cli.env },
  )
  expect(old).toMatchObject({ status: 2, stderr: expect.objectContaining({}) })
  expect(old.stderr.toString()).toContain('needs Node 24')
})

test('mistakes are one line and a next step, with exit code 2', async () => {
  expect(await run('lst')).toMatchObject({
    code: 2,
    stdout: '',
    stderr: 'sandglass: unknown command lst; did you mean ls?\n  next: see --help\n',
  })
  expect(await run('ls', '--al')).toMatchObject({ code: 2, stderr: expect.stringContaining('did you mean --all?') })
  expect(await run('shell', 'box')).toMatchObject({ code: 2, stderr: expect.stringContaining('sandglass exec') })
  expect((await run('help', 'exec')).stdout).toContain('125')
})
