// Tasks on the command line, with an agent that executes its prompt as a script.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SCRIPTED_VERSION } from '../../packages/daemon/src/agents/testing/scripted-registry.fixture.ts'
import { CliHome } from './cli-home.ts'
import { bashRegistry } from './tasks/scripted-agent.ts'

const KEY = 'sk-ant-api03-REALrealREALrealREALreal0123456789'
const TASK = /task_[a-z0-9]{16}/

let cli: CliHome
let registry: Awaited<ReturnType<typeof bashRegistry>>
let repository: string

const git = (...args: string[]) =>
  execFileSync('git', ['-C', repository, '-c', 'user.name=a', '-c', 'user.email=a@example.com', ...args], { encoding: 'utf8' })
const ask = (prompt: string, ...flags: string[]) => cli.run(['run', '-a', 'claude', '-p', prompt, ...flags])

beforeAll(async () => {
  registry = await bashRegistry()
  cli = await CliHome.open()
  mkdirSync(join(cli.home, '.sandglass'), { mode: 0o700 })
  const config = { agents: { registry: registry.url, versions: { claude: SCRIPTED_VERSION } } }
  writeFileSync(join(cli.home, '.sandglass/config.yaml'), JSON.stringify(config), { mode: 0o600 })
  expect(await cli.run(['init', '--agent', 'claude', '--api-key', '-'], { input: KEY })).toMatchObject({ code: 0 })
  repository = join(cli.home, 'repository')
  execFileSync('git', ['init', '-q', '-b', 'main', repository])
  writeFileSync(join(repository, 'a.txt'), 'one\n')
  git('add', '.')
  git('commit', '-qm', 'first')
}, 60_000)
afterAll(async () => {
  await cli.close()
  await registry[Symbol.asyncDispose]()
})

describe('a task', { timeout: 60_000 }, () => {
  test('says what the agent says on stdout, and ends with the exit code of its outcome', async () => {
    expect(await ask('init; say hello; result done')).toMatchObject({
      code: 0,
      stdout: 'hello\n',
      stderr: expect.stringMatching(/^done in \d+s, 1 turn, \$0\.0100\n$/),
    })
    expect(await cli.run(['run', '-p', '-'], { input: 'init; say piped; result done\n' })).toMatchObject({
      code: 0,
      stdout: 'piped\n',
    })
    const crashed = await ask('init; exit 3')
    expect(crashed).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^sandglass: CONTAINER_FAILED.*\n {2}next: .+\n$/s),
    })
    expect(await ask('init; sleep 60', '-t', '1s')).toMatchObject({ code: 124, stderr: expect.stringContaining('TIMEOUT') })
    const unchecked = await ask('init; result done', '--check', 'test -f made')
    expect(unchecked).toMatchObject({ code: 1, stderr: expect.stringContaining('the check failed: exit code 1') })
    expect(await ask('init; touch made; result done', '--check', 'test -f made')).toMatchObject({ code: 0 })
  })

  test('prints one JSON line for each event, and the task last', async () => {
    const lines = (await ask('init; say hello; result done', '--json')).stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(lines.slice(0, -1).map(({ id }) => id)).toEqual(lines.slice(0, -1).map((_, index) => index + 1))
    expect(lines.map(({ type }) => type)).toEqual(expect.arrayContaining(['status', 'init', 'text', 'result']))
    expect(lines.at(-1)).toMatchObject({ id: expect.stringMatching(TASK), outcome: 'SUCCESS', total_cost_usd: 0.01 })
  })

  test('that was detached is followed, shown, listed and removed by its id, its beginning, or as last', async () => {
    const detached = await ask('init; say hello; result done', '--detach', '--context', 'my work')
    const id = detached.stdout.trimEnd()
    expect(detached).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^task_[a-z0-9]{16}\n$/),
      stderr: expect.stringContaining('task follow'),
    })
    expect(await cli.run(['task', 'follow', id])).toMatchObject({ code: 0, stdout: 'hello\n' })
    expect(await cli.run(['task', 'result', id.slice(5, 12)])).toMatchObject({ code: 0, stdout: 'hello\n' })
    expect((await cli.run(['task', 'show', 'last'])).stdout).toMatch(/^status +SUCCESS$/m)
    expect((await cli.run(['task', 'follow', id, '--raw'])).stdout).toContain('"subtype":"init"')
    expect((await cli.run(['task', 'ls', '--context', 'my work'])).stdout).toMatch(
      new RegExp(`^${id} +claude +SUCCESS +my work`, 'm'),
    )
    expect((await cli.run(['context', 'show', 'my work'])).stdout).toMatch(
      /claude +SUCCESS +\$0\.0100 +init; say hello; result done +hello$/m,
    )
    const candidates = (await cli.run(['__complete', 'task', 'show', 'task_'])).stdout
    expect(candidates).toContain(`${id}\tclaude init; say hello`)
    expect(await cli.run(['task', 'rm', id])).toMatchObject({ code: 0, stdout: `${id}\n` })
    expect(await cli.run(['task', 'show', id])).toMatchObject({ code: 4 })
  })

  test('is stopped by Ctrl-C, and its end is awaited', async () => {
    const stopped = await cli.run(['run', '-a', 'claude', '-p', 'init; say begun; sleep 60'], {
      onStdout: (text, kill) => text.includes('begun') && kill('SIGINT'),
    })
    expect(stopped).toMatchObject({ code: 130, stderr: expect.stringContaining('CONTAINER_FAILED (stopped)') })
    expect(JSON.parse((await cli.run(['task', 'show', 'last', '--json'])).stdout)).toMatchObject({
      status: 'done',
      reason: 'stopped',
    })
  })

  test('gives its commits as a branch, and changes nothing else in the repository', async () => {
    writeFileSync(join(repository, 'a.txt'), 'mine\n')
    const prompt = 'init; cat a.txt > copy.txt; result done'
    const worked = await cli.run(['run', '-a', 'claude', '-p', prompt, '--repo', '.', '--json'], { cwd: repository })
    const { id } = JSON.parse(worked.stdout.trimEnd().split('\n').at(-1) ?? '')
    expect(worked.code).toBe(0)
    expect(git('show', `sandglass/${id}:copy.txt`)).toBe('one\n')
    expect(git('status', '--porcelain')).toBe(' M a.txt\n')
    const talked = await cli.run(['task', 'apply', id, '--patch'], { cwd: repository })
    expect(talked.stderr).toContain(`next: git diff main...sandglass/${id}`)
    expect(talked.stdout).toContain('+++ b/copy.txt')
    expect(await cli.run(['task', 'apply', id, '--repo', cli.home])).toMatchObject({ code: 2 })
  })

  test('with files of this machine finds them in its session', async () => {
    writeFileSync(join(cli.home, 'tool'), '#!/bin/sh\necho from the tool\n', { mode: 0o755 })
    const found = await ask(
      'init; say "$(/workspace/bin/tool)"; result done',
      '--file',
      `${join(cli.home, 'tool')}:/workspace/bin/tool`,
    )
    expect(found).toMatchObject({ code: 0, stdout: 'from the tool\n' })
  })

  test('that runs several times is compared in a table', async () => {
    const compared = await ask('init; say hello; result done', '--attempts', '2')
    expect(compared.code).toBe(0)
    expect(compared.stdout).toMatch(/^TASK +AGENT +OUTCOME +COST +TIME +TURNS\ntask_.*SUCCESS.*\ntask_.*SUCCESS.*$/m)
  })
})

test('text of an agent cannot control the terminal', { timeout: 60_000 }, async () => {
  const { stdout } = await ask("init; say '\\\\u001b]0;title\\\\u0007\\\\u001b[2Jplain\\\\u009b31m'; result done")
  expect(stdout).toContain('plain')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
  expect(stdout).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/)
})

test('a context is exported with files that only the user can read', { timeout: 60_000 }, async () => {
  expect(await ask('init; mkdir -p ~/.claude; echo kept > ~/.claude/note; result done', '--context', 'exported')).toMatchObject({
    code: 0,
  })
  const folder = join(cli.home, 'exported')
  expect(await cli.run(['context', 'export', 'exported', '-o', folder])).toMatchObject({ code: 0, stdout: `${folder}\n` })
  expect(JSON.parse(readFileSync(join(folder, 'context.json'), 'utf8'))).toMatchObject({ execution_context_id: 'exported' })
  expect(readFileSync(join(folder, 'claude/note'), 'utf8')).toBe('kept\n')
  for (const name of ['context.json', 'network-sandbox.log']) expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600)
  expect(await cli.run(['context', 'rm', '-f', 'exported'])).toMatchObject({ code: 0 })
  expect(await cli.run(['context', 'show', 'exported'])).toMatchObject({ code: 4 })
})

test('new starts an agent in a session that stays', { timeout: 60_000 }, async () => {
  const made = await cli.run(['new', 'desk', '-a', 'claude', '-p', 'init; result done', '-t', '1h'])
  expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(/^desk {2}sess_[a-z0-9]{16}\ntask_[a-z0-9]{16}\n$/) })
  expect(await cli.run(['task', 'follow', 'last'])).toMatchObject({ code: 0 })
  expect((await cli.run(['ls'])).stdout).toMatch(/ desk +running +claude .* (1h|59m \d+s) left$/m)
})

test('agents are listed with their versions and keys', async () => {
  expect((await cli.run(['agent', 'ls'])).stdout).toMatch(/^claude +Claude Code +9\.9\.9 +9\.9\.9 \(.*\) +stored$/m)
  expect(await cli.run(['agent', 'install', 'claud'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('did you mean claude?'),
  })
})

test.each([
  ['give the prompt with -p', ['run', '-a', 'claude']],
  ['gpt is not an agent', ['run', '-a', 'gpt', '-p', 'x']],
  ['the prompt is empty', ['run', '-p', '']],
  ['has 10001 characters', ['run', '-p', 'x'.repeat(10_001)]],
  ['--keep-session', ['run', '-a', 'claude', '-p', 'x', '--keep']],
  ['is not a git repository', ['run', '-a', 'claude', '-p', 'x', '--repo', '/']],
  ['cannot be read', ['run', '-a', 'claude', '-p', 'x', '--file', '/no/such:/a']],
  ['no program', ['run', '-a', 'claude', '-p', 'x', '--', 'ls']],
  ['-p needs an agent', ['new', '-p', 'x']],
  ['-p cannot be combined with --no-start', ['new', '-a', 'claude', '-p', 'x', '--no-start']],
  ['TASK is missing', ['task', 'show']],
  ['-o FOLDER', ['context', 'export', 'x']],
])('a mistake is refused with: %s', async (issue, args) => {
  expect(await cli.run(args)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(issue) })
})

test('an agent without a key is refused before a task exists', async () => {
  expect(await cli.run(['run', '-a', 'codex', '-p', 'x'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('secret set agent.codex'),
  })
})
