// Policies, secrets, approvals, the network log and the certificate authority from the command line, without a network.
import { X509Certificate } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CliHome, SANDGLASS } from './cli-home.ts'
import { deadline } from './deadline.ts'
import { Tmux } from './tmux.ts'

let cli: CliHome
/** Stands for elsewhere.example.org and docs.example.org. */
const upstream = createServer((request, reply) => void reply.end(`you asked for ${request.url}`))

beforeAll(async () => {
  cli = await CliHome.open()
  await new Promise<void>(resolve => upstream.listen(0, '127.0.0.1', resolve))
  const { port } = upstream.address() as AddressInfo
  const address = `127.0.0.1:${port}`
  const config = { egress: { overrides: { 'elsewhere.example.org': address, 'docs.example.org': address } } }
  await mkdir(join(cli.home, '.sandglass'), { mode: 0o700 })
  await writeFile(join(cli.home, '.sandglass/config.yaml'), JSON.stringify(config), { mode: 0o600 })
})
afterAll(async () => {
  await cli.close()
  upstream.close()
})

const run = (...args: string[]) => cli.run(args)
const json = async (...args: string[]) => JSON.parse((await run(...args, '--json')).stdout)

describe('policies', () => {
  const FILE = 'description: mine\ndomains:\n  - docs.example.com\nurl_prefixes:\n  - host: api.example.com\n    methods: [GET]\n'

  test('a policy is stored from a file, shown in the same form, checked and removed', async () => {
    const file = join(cli.home, 'policy.yaml')
    await writeFile(file, FILE)
    expect(await run('policy', 'set', 'mine', file)).toMatchObject({
      code: 0,
      stdout: '',
      stderr: expect.stringMatching(/^stored mine$/m),
    })
    const shown = await run('policy', 'show', 'mine')
    expect(shown.stdout).toContain('docs.example.com')
    expect(await cli.run(['policy', 'set', 'copy', '-'], { input: shown.stdout })).toMatchObject({ code: 0 })
    expect((await run('policy', 'show', 'copy')).stdout).toBe(shown.stdout)
    expect((await json('policy', 'show', 'mine')).policy).toMatchObject({ description: 'mine', domains: ['docs.example.com'] })
    const listed = (await run('policy', 'ls')).stdout
    expect(listed).toMatch(/^NAME +RULES +MODE +ABOUT\n/)
    expect(listed).toMatch(/^mine +2 +- +mine$/m)
    expect(listed).toMatch(/^npm +\d+ +- +ready-made/m)
    expect(await run('policy', 'check', 'mine', 'https://docs.example.com/x')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^allowed by mine: /),
    })
    expect(await run('policy', 'check', 'mine', 'https://api.example.com/', '-X', 'POST')).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^refused: .*not with POST$/m),
    })
    for (const [url, advice] of [
      ['docs.example.com', 'write https://docs.example.com'],
      ['ftp://docs.example.com/', 'not ftp://'],
      ['tcp://docs.example.com', 'must be tcp://HOST:PORT'],
    ] as const)
      expect(await run('policy', 'check', 'mine', url)).toMatchObject({ code: 2, stderr: expect.stringContaining(advice) })
    expect(await run('policy', 'rm', 'copy', 'mine')).toMatchObject({ code: 0, stdout: 'copy\nmine\n' })
    expect(await run('policy', 'rm', 'mine')).toMatchObject({ code: 4 })
    expect(await run('policy', 'rm', '-f', 'mine')).toMatchObject({ code: 0, stdout: '' })
  })

  test('flags are enough for a list of hosts', async () => {
    expect(
      await run(
        'policy',
        'set',
        'quick',
        '--domain',
        'a.example.com',
        '--domain',
        '*.b.example.com',
        '--include',
        'npm',
        '--mode',
        'ask',
      ),
    ).toMatchObject({ code: 0 })
    expect((await json('policy', 'show', 'quick')).policy).toMatchObject({
      domains: ['a.example.com', '*.b.example.com'],
      include: ['npm'],
      mode: 'ask',
    })
    expect((await run('policy', 'ls')).stdout).toMatch(/^quick +2 \+ npm +ask$/m)
    await run('policy', 'rm', 'quick')
  })

  test('a mistake in a file is named with its line, and nothing is stored', async () => {
    const file = join(cli.home, 'wrong.yaml')
    const mistake = async (text: string) => {
      await writeFile(file, text)
      const { code, stderr } = await cli.run(['policy', 'set', 'wrong', 'wrong.yaml'], { cwd: cli.home })
      expect(code === 2 || code === 4).toBe(true)
      return stderr.split('\n  next: ')[0]
    }
    expect(await mistake('domains:\n  - a.example.com\n  - "*.com"\ntcp: [b]\n')).toBe(
      'sandglass: wrong.yaml:3: domains[1]: "*.com" is too wide: the last two labels cannot have a wildcard\n' +
        'sandglass: wrong.yaml:4: tcp[0]: "b" has no port; write host:port, such as b:5432',
    )
    expect(await mistake('url_prefixes:\n  - host: a.example.com\n    pth: /x\n')).toBe(
      'sandglass: wrong.yaml:3: unknown key url_prefixes[0].pth; did you mean path?',
    )
    expect(await mistake('domains: []\n\ninclude:\n  - npm\n  - nobody-knows-this\n')).toBe(
      'sandglass: wrong.yaml:5: no policy nobody-knows-this',
    )
    expect(await mistake('# me\ninclude: [wrong]\n')).toMatch(/^sandglass: wrong\.yaml:2: include: .*itself/)
    expect(await run('policy', 'show', 'wrong')).toMatchObject({ code: 4 })
    expect(await cli.run(['policy', 'set', 'wrong'], { input: '' })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('stdin is empty'),
    })
    expect(await run('policy', 'set', 'Wrong', '--domain', 'a.example.com')).toMatchObject({ code: 2 })
    expect(await run('policy', 'set', 'wrong', '--domain', 'a.example.com', '--domain', '*.com')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^sandglass: --domain "\*\.com" is too wide: /m),
    })
    expect(await run('policy', 'set', 'wrong', '--mode', 'strict')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/--mode must be enforce, observe or ask, not strict$/m),
    })
  })

  test('a ready-made policy cannot be changed, and a mistyped name is answered with the nearest', async () => {
    expect(await run('policy', 'set', 'npm', '--domain', 'a.example.com')).toMatchObject({
      code: 5,
      stderr: expect.stringContaining('include: [npm]'),
    })
    expect(await run('policy', 'show', 'nmp')).toMatchObject({ code: 4, stderr: expect.stringContaining('did you mean npm?') })
    expect(await run('new', 'never', '--policy', 'nmp')).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('did you mean npm?'),
    })
  })
})

describe('secrets', () => {
  const VALUE = 'hidden-value-5c1f0b77'

  test('a secret is stored with its settings, rotated and listed without its value', async () => {
    const set = ['secret', 'set', 'token', '--scope', 'api.example.com', '--scope', '*.example.org/x/*', '--env', 'TOKEN']
    expect(await cli.run(set, { input: VALUE })).toMatchObject({ code: 0, stderr: expect.not.stringContaining('no scope') })
    expect(await cli.run(['secret', 'rotate', 'token'], { input: `${VALUE}-two\n` })).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/^rotated token$/m),
    })
    expect(await json('secret', 'ls')).toMatchObject([
      { name: 'token', kind: 'masked', env: 'TOKEN', scopes: ['api.example.com', '*.example.org/x/*'] },
    ])
    const listed = await run('secret', 'ls')
    expect(listed.stdout).toMatch(/^token +masked +TOKEN +api\.example\.com, \*\.example\.org\/x\/\* /m)
    expect(listed.stdout).not.toContain(VALUE)
    expect(await cli.run(['secret', 'rotate', 'nobody'], { input: VALUE })).toMatchObject({ code: 4 })
    await run('secret', 'rm', '-f', 'token')
  })

  test('AWS keys are taken as lines, and a part that is missing is named without the others', async () => {
    const lines = `[work]\naws_access_key_id = AKIAEXAMPLE00000000\naws_secret_access_key = ${VALUE}\nregion = x\n`
    expect(await cli.run(['secret', 'set', 'aws', '--preset', 'aws'], { input: lines })).toMatchObject({ code: 0 })
    expect(await json('secret', 'ls')).toMatchObject([{ name: 'aws', kind: 'aws' }])
    const refused = await cli.run(['secret', 'rotate', 'aws'], { input: `aws_secret_access_key=${VALUE}` })
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('access_key_id') })
    expect(refused.stderr).not.toContain(VALUE)
    await run('secret', 'rm', '-f', 'aws')
  })

  test('a secret without a scope is stored with a note, and refused for a session', async () => {
    expect(await cli.run(['secret', 'set', 'plain'], { input: VALUE })).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('no scope'),
    })
    expect(await run('new', 'never', '--secret', 'plain')).toMatchObject({
      code: 5,
      stderr: expect.stringContaining('--scope HOST'),
    })
    await run('secret', 'rm', '-f', 'plain')
  })
})

test('the certificate authority is printed as PEM, and replaced by rotate', async () => {
  const shown = (await run('ca', 'show')).stdout
  const before = new X509Certificate(shown)
  expect(before.ca).toBe(true)
  expect(await run('ca', 'rotate')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^[0-9a-f:]+ {2}expires 2\d{3}-/i),
    stderr: expect.stringContaining('until their next start'),
  })
  const after = await json('ca', 'show')
  expect(new X509Certificate(after.certificate).fingerprint256).not.toBe(before.fingerprint256)
})

test('a session without a network has no log, and no policies', async () => {
  expect(await run('new', 'alone', '--network', 'none', '--policy', 'npm')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--network none and --policy exclude each other'),
  })
  await run('new', 'alone', '--no-start')
  for (const follow of [[], ['-f']])
    expect(await run('network', 'alone', ...follow)).toMatchObject({
      code: 0,
      stdout: '',
      stderr: 'alone has no network (none), so there is no log\n  next: `sandglass start alone --policy POLICY`\n',
    })
  await run('rm', '-f', 'alone')
})

describe('a session with a policy', () => {
  beforeAll(async () => {
    await run('policy', 'set', 'docs', '--domain', 'docs.example.com')
    await cli.run(['secret', 'set', 'token', '--scope', 'elsewhere.example.org', '--env', 'TOKEN'], {
      input: 'hidden-value-5c1f0b77',
    })
  })

  test('new warns of a secret that no policy lets out, and inspect and ls show the policies', async () => {
    const made = await run('new', 'box', '--policy', 'docs', '--secret', 'token')
    expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(/^box {2}sess_/) })
    expect(made.stderr).toMatch(/^warning: no policy of the session allows a host of the secret token/m)
    const inspected = (await run('inspect', 'box')).stdout
    expect(inspected).toMatch(/^network +allowlist$/m)
    expect(inspected).toMatch(/^policies +docs$/m)
    expect(inspected).toMatch(/^secrets +token$/m)
    const listed = (await run('ls')).stdout
    expect(listed).toMatch(/^ID +NAME +STATUS +BACKEND +NETWORK +IMAGE /)
    expect(listed).toMatch(/ docs +host /)
  })

  test('a refused request is in the log, for people and for programs', async () => {
    const asked = await run('exec', 'box', '--', 'curl', '-s', 'http://elsewhere.example.org/x?q=%1b')
    expect(JSON.parse(asked.stdout)).toMatchObject({ error: 'blocked_by_network_allowlist', host: 'elsewhere.example.org' })
    await deadline('the log has the request', async () => (await run('network', 'box', '--blocked')).stdout !== '')
    const lines = (await run('network', 'box', '--blocked')).stdout.trimEnd().split('\n')
    expect(lines.at(-1)).toMatch(
      /^\S+Z {2}BLOCKED {3}GET {2}http:\/\/elsewhere\.example\.org\/x\?q=%1b {2}403 .*no rule allows the host elsewhere\.example\.org$/,
    )
    const entries = (await run('network', 'box', '--json', '--tail', '1')).stdout.trimEnd().split('\n')
    expect(entries.map(line => JSON.parse(line))).toMatchObject([{ decision: 'blocked', method: 'GET', status: 403 }])
    expect((await run('network', 'box', '--tail', 'many')).code).toBe(2)
  })

  test('the policies of a running session change, and a policy in use cannot be removed', async () => {
    expect(await run('policy', 'use', 'box', 'docs', 'npm', '--mode', 'observe')).toMatchObject({
      code: 0,
      stdout: 'box  docs, npm  mode observe\n',
    })
    expect((await run('ls')).stdout).toMatch(/ docs, npm \(observe\) +host /)
    expect(await run('start', 'box', '--policy', 'docs')).toMatchObject({
      code: 5,
      stderr: expect.stringContaining('next: `sandglass policy use box docs`'),
    })
    await cli.run(['policy', 'set', 'loose'], { input: 'mode: observe\n' })
    await run('policy', 'use', 'box', 'loose', '--mode', 'none')
    expect((await run('ls')).stdout).toMatch(/ loose \(observe\) +host /)
    await run('policy', 'use', 'box', 'docs', 'npm')
    expect(await run('policy', 'use', 'box', '--mode', 'none')).toMatchObject({ code: 0, stdout: 'box  docs, npm\n' })
    expect(await run('policy', 'rm', 'docs')).toMatchObject({ code: 5, stderr: expect.stringContaining('box') })
    expect(await run('policy', 'use', 'box')).toMatchObject({ code: 2 })
    expect(await run('policy', 'use', 'box', '--mode', 'loud')).toMatchObject({ code: 2 })
    expect((await run('policy', 'suggest', 'box')).code).toBe(0)
  })

  test('start takes other policies and a mode', async () => {
    await run('stop', 'box')
    expect(await run('start', 'box', '--policy', 'docs', '--policy-mode', 'ask')).toMatchObject({ code: 0 })
    expect(await json('inspect', 'box')).toMatchObject({ policies: ['docs'], policy_mode: 'ask', secrets: ['token'] })
  })

  test('a held request is listed, and goes on or is refused by its answer', async () => {
    const asked = run(
      'exec',
      'box',
      '--',
      'curl',
      '-s',
      '-o',
      '/dev/null',
      '-w',
      '%{http_code}',
      'http://elsewhere.example.org/held',
    )
    await deadline('the request waits', async () => (await json('approval', 'ls')).length === 1)
    const [{ id }] = await json('approval', 'ls')
    expect((await run('approval', 'ls')).stdout).toMatch(
      new RegExp(`^${id} +box +GET http://elsewhere\\.example\\.org/held +\\d+s ago +in `, 'm'),
    )
    for (const action of ['allow', 'deny'])
      expect((await run('__complete', 'approval', action, '')).stdout).toBe(`${id}\tbox GET http://elsewhere.example.org/held\n`)
    expect(await run('approval', 'deny', id)).toMatchObject({
      code: 0,
      stdout: 'denied  GET http://elsewhere.example.org/held\n',
    })
    expect((await asked).stdout).toBe('403')
    expect(await run('approval', 'allow', id)).toMatchObject({ code: 5, stderr: expect.stringContaining('already denied') })
    expect(await run('approval', 'allow', 'appr_0')).toMatchObject({ code: 4 })
    expect((await run('approval', 'ls')).stdout).toBe('')
    expect((await run('approval', 'ls', '--all')).stdout).toMatch(/^ID +SESSION +REQUEST +STATUS +ASKED\n.* denied /)
    using tmux = new Tmux({ ...cli.env, SG: SANDGLASS }, { cols: 70, rows: 20 })
    tmux.line('"$SG" approval ls --all')
    await tmux.shows(new RegExp(`^${id} +box +denied +.* ago\\n  GET http://elsewhere\\.example\\.org/held$`, 'm'))
  })

  test('an answer into the policy holds for the next request, too', async () => {
    const asked = run('exec', 'box', '--', 'curl', '-s', 'http://docs.example.org/first')
    const followed = cli.run(['approval', 'ls', '-f'], {
      onStdout: (text, kill) => {
        if (text.endsWith('/first\n')) kill('SIGINT')
      },
    })
    const line = (await followed).stdout
    expect(line).toMatch(/^\S+Z {2}appr_\w+ {2}box {2}pending {2}GET http:\/\/docs\.example\.org\/first\n$/)
    const id = line.split('  ')[1] ?? ''
    expect(await run('approval', 'allow', id, '--policy', 'nobody-knows-this')).toMatchObject({ code: 2 })
    expect(await run('approval', 'allow', id, 'docs')).toMatchObject({ code: 2, stderr: expect.stringContaining('--policy') })
    expect(await run('approval', 'allow', id, '--policy', 'docs')).toMatchObject({
      code: 0,
      stdout: 'allowed (policy)  GET http://docs.example.org/first\n',
    })
    expect((await asked).stdout).toBe('you asked for /first')
    expect((await run('exec', 'box', '--', 'curl', '-s', 'http://docs.example.org/second')).stdout).toBe('you asked for /second')
    expect((await json('policy', 'show', 'docs')).policy.domains).toEqual(['docs.example.com', 'docs.example.org'])
    await run('policy', 'set', 'docs', '--domain', 'docs.example.com')
  })

  test('what a session did in mode observe becomes a policy', async () => {
    await run('policy', 'use', 'box', 'docs', '--mode', 'observe')
    const followed = cli.run(['network', 'box', '-f', '--tail', '0'], {
      onStdout: (text, kill) => {
        if (text.includes('/seen/')) kill('SIGINT')
      },
    })
    // Requests are sent until the follower has seen one: with --tail 0 it does not see those before it.
    let isOver = false
    const over = followed.finally(() => {
      isOver = true
    })
    while (!isOver) {
      const { stdout } = await run('exec', 'box', '--', 'curl', '-s', 'http://elsewhere.example.org/seen/x')
      expect(stdout).toBe('you asked for /seen/x')
    }
    expect((await over).stdout).toMatch(/ALLOWED {3}GET {2}http:\/\/elsewhere\.example\.org\/seen\/x {2}200 .*\[observed\]$/m)
    const suggested = await run('policy', 'suggest', 'box', '--save', 'seen')
    expect(suggested.stdout).toMatch(/^include: \[docs\]\n/)
    expect(suggested.stdout).toContain('host: elsewhere.example.org\n')
    expect(suggested.stdout).toContain('path: /seen/*\n    methods: [GET]\n')
    expect(await run('policy', 'check', 'seen', 'http://elsewhere.example.org/seen/y')).toMatchObject({ code: 0 })
    expect(await run('policy', 'check', 'seen', 'http://elsewhere.example.org/other')).toMatchObject({ code: 1 })
    await run('policy', 'use', 'box', 'docs', '--mode', 'ask')
  })

  test('watch asks about each request on a terminal, and drops one that was answered elsewhere', async () => {
    for (const way of ['watch', '-f'])
      expect(await run('approval', way)).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(`^sandglass: approval ${way} needs a terminal\n  next: .*approval ls -f`),
      })
    using tmux = new Tmux({ ...cli.env, SG: SANDGLASS }, { cols: 120, rows: 40 })
    tmux.line('"$SG" approval -f')
    await tmux.shows(/^waiting for requests/m)
    const get = (path: string) =>
      run('exec', 'box', '--', 'curl', '-s', '-o', '/dev/null', '-w', '%{http_code}', `http://elsewhere.example.org/${path}`)
    const first = get('one')
    await tmux.shows(/^box: GET http:\/\/elsewhere\.example\.org\/one \(refused in /m)
    tmux.line('maybe')
    await tmux.shows(/^answer o, s, p, p NAME or d$/m)
    tmux.line('d')
    expect((await first).stdout).toBe('403')
    await tmux.shows(/^denied$/m)
    const second = get('two')
    await tmux.shows(/^box: GET http:\/\/elsewhere\.example\.org\/two /m)
    const [{ id }] = await json('approval', 'ls')
    await run('approval', 'deny', id)
    await tmux.shows(/^this request no longer waits$/m)
    expect((await second).stdout).toBe('403')
    tmux.key('C-c')
    await tmux.shows(/^host\$\s*$/m)
  })
})

test('policies, secrets and approvals are completed', async () => {
  const candidates = async (...words: string[]) =>
    (await run('__complete', ...words)).stdout
      .split('\n')
      .filter(Boolean)
      .map(line => line.split('\t')[0])
  expect(await candidates('new', '--policy', 'do')).toEqual(['docs'])
  expect(await candidates('policy', 'use', 'box', 'do')).toEqual(['docs'])
  expect(await candidates('secret', 'rotate', '')).toEqual(['token'])
})
