// `sandglass image build` with a private engine.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { connectLocal, type ImageBuildProgress, Sandbox } from '@sandglass/sdk/node'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { smallImage } from '../../packages/daemon/src/images/testing/build-daemon.fixture.ts'
import { savedArchive } from '../../packages/daemon/src/images/testing/image.fixture.ts'
import { CliHome } from './cli-home.ts'
import { Tmux } from './tmux.ts'

// Each build starts several containers in sequence.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let engine: ChildProcess
let cli: CliHome

beforeAll(async () => {
  engine = spawn(process.execPath, [resolve('tools/docker-engine.ts')], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [line] = await once(engine.stdout ?? engine, 'data')
  cli = await CliHome.open()
  const docker = { api_endpoint: `unix://${JSON.parse(String(line)).socket}` }
  const config = { listen: ['unix'], backends: { docker }, images: { build_network: 'none' } }
  put('.sandglass/config.yaml', JSON.stringify(config))
  const archive = await savedArchive([{ image: await smallImage(), tags: ['small:1'] }])
  expect(await cli.run(['image', 'import', '-'], { input: archive })).toMatchObject({ code: 0 })
})

afterAll(async () => {
  await cli?.close()
  engine?.stdin?.end()
  if (engine?.exitCode === null) await once(engine, 'exit')
})

function put(path: string, content: string): void {
  mkdirSync(dirname(join(cli.home, path)), { recursive: true, mode: path.startsWith('.sandglass') ? 0o700 : 0o755 })
  writeFileSync(join(cli.home, path), content, { mode: path.startsWith('.sandglass') ? 0o600 : 0o644 })
}

const build = (args: string[], options: Parameters<CliHome['run']>[1] = {}) => cli.run(['image', 'build', ...args], options)
const filesIn = async (image: string) => {
  const name = `f-${image.replace(':', '-')}`
  expect(await cli.run(['new', name, '--image', image])).toMatchObject({ code: 0 })
  const { stdout } = await cli.run(['exec', name, '-c', 'cd /app && ls -A1 . sub'])
  await cli.run(['rm', '-f', name])
  return stdout.trim().split('\n').filter(Boolean)
}

test('image build sends the files that .dockerignore does not exclude, and its last line is the result', async () => {
  put('app/Dockerfile', 'ARG BASE\nFROM $BASE\nCOPY . /app\nRUN echo "with $HOME" && ls /app\n')
  put('app/.dockerignore', '# what stays here\n*.log\nsub/*\n!sub/kept\nDockerfile\n')
  for (const file of ['a', 'b.log', 'sub/kept', 'sub/dropped']) put(`app/${file}`, file)
  const cwd = join(cli.home, 'app')
  const first = await build(['-t', 'app:1', '--build-arg', 'BASE'], { cwd, env: { BASE: 'small:1' } })
  expect(first, first.stderr).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^app:1 {2}[0-9a-f]{12} {2}\d+\.\d MiB {2}in \d+\.\ds\n$/),
  })
  expect(first.stderr).toMatch(
    /\[1\/4\] ARG BASE\n\[2\/4\] FROM small:1\n\[3\/4\] COPY \. \/app\n\[4\/4\] RUN .*\n {6}with \/root\n/,
  )
  expect(await filesIn('app:1')).toEqual(['.:', '.dockerignore', 'a', 'sub', '', 'sub:', 'kept'].filter(Boolean))
  const again = await build(['app', '-t', 'app:2', '--build-arg=BASE=small:1'], { cwd: cli.home })
  expect(again).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/^app:2 .* built \d+s ago\n$/) })
})

test('a Dockerfile may come from another folder or stdin, and may have its own .dockerignore', async () => {
  put('other/x.dockerfile', 'FROM small:1\nCOPY . /app\n')
  put('other/x.dockerfile.dockerignore', '*\n!sub\n')
  put('src/a', '')
  put('src/sub/b', '')
  const cwd = join(cli.home, 'src')
  expect(await build(['.', '-f', '../other/x.dockerfile', '-t', 'x:1'], { cwd })).toMatchObject({ code: 0 })
  expect(await filesIn('x:1')).toEqual(['.:', 'sub', 'sub:', 'b'])
  const piped = await build(['-q', '-f', '-', '-t', 'y:1', '--overlay', '../other/top'], {
    cwd,
    input: 'FROM small:1\nCOPY . /app\n',
  })
  expect(piped).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('no such file or directory on this machine: ../other/top'),
  })
  put('other/top', 'RUN echo top > /app/top\n')
  expect(
    await build(['-q', '-f', '-', '-t', 'y:1', '--overlay', '../other/top'], { cwd, input: 'FROM small:1\nCOPY . /app\n' }),
  ).toMatchObject({ code: 0, stderr: '' })
  expect(await filesIn('y:1')).toEqual(['.:', 'a', 'sub', 'top', 'sub:', 'b'])
})

test('a build that must start the daemon first gets all of its files', async () => {
  put('late/Dockerfile', 'FROM small:1\nCOPY a /app/a\n')
  put('late/a', 'late')
  for (const [args, options] of [
    [['-t', 'late:1'], {}],
    [['-f', '-', '-t', 'late:2'], { input: 'FROM small:1\nCOPY a /app/b\n' }],
  ] as const) {
    expect(await cli.run(['shutdown'])).toMatchObject({ code: 0 })
    expect(await build([...args], { cwd: join(cli.home, 'late'), ...options })).toMatchObject({ code: 0 })
  }
})

test('a failing step is shown with its output, also with --quiet, and as JSON with --json', async () => {
  const input = 'FROM small:1\nRUN echo about to fail; exit 7\n'
  const options = { cwd: join(cli.home, 'src'), input }
  const message = 'image bad:1 was not built: step 2 of 2 (RUN echo about to fail; exit 7) ended with exit code 7'
  const shown = await build(['-f', '-', '-t', 'bad:1'], options)
  expect(shown).toMatchObject({ code: 3, stdout: '' })
  expect(shown.stderr).toContain(`      about to fail\nsandglass: ${message}\n`)
  expect((await build(['-q', '-f', '-', '-t', 'bad:1'], options)).stderr).toMatch(
    new RegExp(`^about to fail\nsandglass: ${message.replace(/[()]/g, '\\$&')}\n`),
  )
  const json = JSON.parse((await build(['--json', '-f', '-', '-t', 'bad:1'], options)).stderr)
  expect(json.error).toMatchObject({ code: 'IMAGE_BUILD_FAILED', detail: { step: 2, exit_code: 7, output: ['about to fail'] } })
})

test.each([
  [['nowhere'], 4, 'no such file or directory on this machine: nowhere'],
  [['-f', 'nowhere'], 4, 'no such file or directory on this machine: nowhere'],
  [['app', 'src'], 2, 'unexpected argument src'],
  [['app', '--build-arg', 'NOT_SET'], 2, 'the environment has no NOT_SET'],
  [['app', '--max-age', 'soon'], 2, '--max-age soon is not a duration'],
  [['app', '-t', 'UPPER'], 2, 'is not an image reference'],
  [['app', '--name', 'x'], 2, 'unknown flag --name'],
])('image build %j fails with a usage message', async (args, code, text) => {
  expect(await build(args, { cwd: cli.home })).toMatchObject({ code, stderr: expect.stringContaining(text) })
})

test('steps are shown on a terminal while they run', async () => {
  put('slow/Dockerfile', 'FROM small:1\nRUN echo first; sleep 1; echo second\n')
  using screen = new Tmux(cli.env, { cols: 100, rows: 30 })
  screen.line(`${resolve('sandglass')} image build ${join(cli.home, 'slow')} -t slow:1`)
  await screen.shows(/\[2\/2\] RUN echo first; sleep 1; echo second\s+first\s+second/, 60_000)
  await screen.shows(/slow:1 {2}[0-9a-f]{12} .* in \d/, 60_000)
})

test('ensureImage of the SDK builds from a folder without what .dockerignore names, and uses the result again', async () => {
  put('own/Dockerfile.app', 'FROM small:1\nCOPY . /app\n')
  put('own/files/.dockerignore', 'dropped\n')
  for (const file of ['kept', 'dropped', 'sub/x']) put(`own/files/${file}`, file)
  const sandbox = new Sandbox({ client: connectLocal({ dataDir: cli.dataDir, start: false }) })
  const options = {
    dockerfile: join(cli.home, 'own/Dockerfile.app'),
    contextDir: join(cli.home, 'own/files'),
    reference: 'own:1',
  }
  const steps: string[] = []
  const onProgress = (progress: ImageBuildProgress) => {
    if ('instruction' in progress && !progress.cached) steps.push(progress.instruction)
  }
  expect(await sandbox.ensureImage({ ...options, onProgress })).toBe('own:1')
  expect(steps).toContain('COPY . /app')
  expect(await filesIn('own:1')).toEqual(['.:', '.dockerignore', 'kept', 'sub', 'sub:', 'x'])
  steps.length = 0
  await sandbox.ensureImage({ ...options, onProgress })
  expect(steps).toEqual([])
  put('own/Dockerfile.app', 'FROM small:1\nRUN echo broken; exit 3\n')
  await expect(sandbox.ensureImage(options)).rejects.toMatchObject({ name: 'ImageBuildError', code: 'IMAGE_BUILD_FAILED' })
})
