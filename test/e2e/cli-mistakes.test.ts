import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliHome } from './cli-home.ts'

let cli: CliHome

beforeAll(async () => {
  cli = await CliHome.open()
  expect(await cli.run(['new', 'box'])).toMatchObject({ code: 0 })
})
afterAll(() => cli.close())

const run = (...args: string[]) => cli.run(args)

test('a usage error is one line and a next step, with exit code 2', async () => {
  expect(await run('lst')).toMatchObject({
    code: 2,
    stdout: '',
    stderr: 'sandglass: unknown command lst; did you mean ls?\n  next: `sandglass help` lists the commands\n',
  })
  expect(await run('ls', '--al')).toMatchObject({
    code: 2,
    stderr: 'sandglass: unknown flag --al; did you mean --all?\n  next: `sandglass help ls` shows its usage\n',
  })
  expect(await run('serve', '--listne', 'unix')).toMatchObject({
    code: 2,
    stderr: 'sandglass: unknown flag --listne; did you mean --listen?\n  next: `sandglass help serve` shows its usage\n',
  })
  expect(await run('image', 'lss')).toMatchObject({ code: 2, stderr: expect.stringContaining('; did you mean ls?\n') })
  expect(await run('image', 'list')).toMatchObject({ code: 2, stderr: expect.stringContaining('; did you mean ls?\n') })
  expect(await run('exec', 'box', '--tag', 'mine', '-c', 'pwd')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--tag goes with -- PROGRAM: sandglass exec NAME --tag TAG -- sh -c 'TEXT'"),
  })
  const line = await run('exec', 'box', "echo 'a b'; ls")
  expect(line).toMatchObject({ code: 2, stderr: expect.stringContaining("sandglass exec box -c 'echo '\\''a b'\\''; ls'\n") })
  expect(await run('shell', 'box')).toMatchObject({ code: 2, stderr: expect.stringContaining('sandglass exec') })
  expect((await run('help', 'exec')).stdout).toContain('125')
})

test('a copy from a path outside the file API names the allowed paths', async () => {
  for (const path of ['/nope', '/etc/passwd'])
    expect(await run('cp', `box:${path}`, cli.home)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        new RegExp(`path is not accessible through the file API: ${path}\n.* /workspace, /tmp or /home/sandbox.*--user root`),
      ),
    })
})

test('an error of the daemon names the flag instead of the field', async () => {
  expect(await run('new', '--memory-mb', '100000')).toMatchObject({
    code: 2,
    stderr:
      'sandglass: --memory-mb must be at most 8192 MiB, not 100000\n  next: ask for less, or set limits.max_memory_mb in the configuration, run `sandglass shutdown` and try again\n',
  })
})

test('a usage error says what to write instead', async () => {
  const mistake = (issue: string) => ({ code: 2, stderr: expect.stringContaining(issue) })
  expect(await run('exec', 'box', '-c', ' ')).toMatchObject(mistake('the command line after -c is empty'))
  expect(await run('exec', 'box', '-c', 'echo', 'hi')).toMatchObject(mistake('put the whole command line after -c in quotes'))
  expect(await run('kill', 'box', 'web', '-15')).toMatchObject(mistake('a signal is written -s 15'))
  expect(await run('kill', 'box', 'web', '-KILL')).toMatchObject(mistake('a signal is written -s KILL'))
  expect(await run('resize', 'box', '--disk', '4g')).toMatchObject(mistake('the disk of a session cannot change'))
  await run('exec', 'box', '-c', 'true')
  expect(await run('interrupt', 'box', '--shell', 'nosuch')).toMatchObject({
    code: 4,
    stderr: 'sandglass: no shell nosuch\n  next: the session has the shells main: give one with --shell\n',
  })
})

test('an invalid name is answered with a similar valid one', async () => {
  expect(await run('new', 'Foo')).toMatchObject({ code: 2, stderr: expect.stringContaining('did you mean foo?') })
  expect(await run('new', 'my_box')).toMatchObject({ code: 2, stderr: expect.stringContaining('did you mean my-box?') })
  expect((await run('new', '7')).stderr).not.toContain('did you mean')
})

test('a mistyped session is answered with the most similar name', async () => {
  for (const name of ['bx', 'Box']) {
    expect(await run('inspect', name)).toMatchObject({
      code: 4,
      stderr: `sandglass: no session ${name}\n  next: did you mean box? \`sandglass ls\` lists the sessions\n`,
    })
  }
  expect((await run('exec', 'bxo', '--', 'true')).code).toBe(125)
})

test('with --json, stderr has errors as JSON and nothing else', async () => {
  const failure = async (...args: string[]) => {
    const { stdout, stderr, code } = await run(...args)
    expect(stdout).toBe('')
    return { exit: code, ...JSON.parse(stderr).error }
  }
  expect(await failure('inspect', 'nobody', '--json')).toMatchObject({
    exit: 4,
    code: 'SESSION_NOT_FOUND',
    message: 'no session nobody',
    detail: { id: 'nobody' },
    hint: expect.stringContaining('sandglass ls'),
  })
  expect(await failure('--json', 'lst')).toMatchObject({ exit: 2, code: 'USAGE' })
  expect(await failure('ls', '--json', '--al')).toMatchObject({ exit: 2, code: 'USAGE' })
  expect(await failure('exec', 'nobody', '--json', '-c', 'true')).toMatchObject({ exit: 125, code: 'SESSION_NOT_FOUND' })
  expect(await failure('exec', 'box', '--json', '--', '/no/such/program')).toMatchObject({ exit: 127, code: 'FILE_NOT_FOUND' })
  expect(await failure('cp', '--json', 'box:nothing', cli.home)).toMatchObject({ exit: 4, code: 'FILE_NOT_FOUND' })
  const wrong = { SANDGLASS_LOG_LEVEL: 'loud' }
  const config = await cli.run(['config', '--json'], { env: wrong })
  expect(JSON.parse(config.stderr).error).toMatchObject({ code: 'CONFIG_INVALID', message: expect.stringContaining('log_level') })
  expect((await run('exec', 'box', '--', 'sh', '-c', 'echo "$1" >&2', 'sh', '--json')).stderr).toBe('--json\n')
})
