// `sandglass image build`, hash, save and load without a Docker engine: the steps run in sandboxes.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { smallImage } from '../../packages/daemon/src/images/testing/build-daemon.fixture.ts'
import { savedArchive } from '../../packages/daemon/src/images/testing/image.fixture.ts'
import { CliHome, isAlive } from './cli-home.ts'
import { deadline } from './deadline.ts'
import { leftovers } from './leftovers.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

let cli: CliHome
let connected: CliHome

beforeAll(async () => {
  cli = await openHome({ build_network: 'none' })
  connected = await openHome({ build_policies: ['debian'] })
})

afterAll(async () => {
  await cli?.close()
  await connected?.close()
})

async function openHome(images: object): Promise<CliHome> {
  const home = await CliHome.open()
  const docker = { api_endpoint: `unix://${join(home.home, 'no-engine.sock')}` }
  put('.sandglass/config.yaml', JSON.stringify({ listen: ['unix'], backends: { docker }, images }), home)
  const archive = await savedArchive([{ image: await smallImage(), tags: ['small:1'] }])
  expect(await home.run(['image', 'import', '-'], { input: archive })).toMatchObject({ code: 0 })
  return home
}

function put(path: string, content: string, { home } = cli): void {
  mkdirSync(dirname(join(home, path)), { recursive: true, mode: path.startsWith('.sandglass') ? 0o700 : 0o755 })
  writeFileSync(join(home, path), content, { mode: path.startsWith('.sandglass') ? 0o600 : 0o644 })
}

const image = (args: string[], options: Parameters<CliHome['run']>[1] = {}) =>
  cli.run(['image', ...args], { cwd: cli.home, ...options })

test('an image is built in sandboxes, saved, loaded again, and used by a session', async () => {
  put('app/Dockerfile', 'FROM small:1\nCOPY a /app/a\nRUN cat /app/a && mkdir /app/made\n')
  put('app/a', 'content\n')
  const hash = await image(['hash', 'app'])
  expect(hash).toMatchObject({ code: 0, stdout: expect.stringMatching(/^[0-9a-f]{64}\n$/) })
  const built = await image(['build', 'app', '-t', 'app:1', '--entrypoint'])
  expect(built, built.stderr).toMatchObject({ code: 0, stdout: expect.stringMatching(/^app:1 {2}[0-9a-f]{12} /) })
  expect(built.stderr).toMatch(/no Docker engine answers: the steps run in sandboxes\n/)
  expect(built.stderr).toMatch(/\[3\/3\] RUN cat \/app\/a && mkdir \/app\/made\n {6}content\n/)
  expect(JSON.parse((await image(['hash', 'app', '--json'])).stdout)).toMatchObject({
    hash: hash.stdout.trim(),
    image_id: expect.stringMatching(/^sha256:/),
  })
  for (const file of ['one.tar', 'two.tar']) expect(await image(['save', 'app:1', '-o', file])).toMatchObject({ code: 0 })
  expect(readFileSync(join(cli.home, 'one.tar')).equals(readFileSync(join(cli.home, 'two.tar')))).toBe(true)
  expect(await image(['rm', 'app:1'])).toMatchObject({ code: 0 })
  expect(await image(['load', 'one.tar'])).toMatchObject({ code: 0, stdout: expect.stringMatching(/^app:1 /) })
  expect(await cli.run(['new', 'check', '--image', 'app:1'])).toMatchObject({ code: 0 })
  const command = 'ls -1 /app; cat /app/a; echo "$IS_SANDBOX"; /sandglass-entrypoint sh -c "echo from entrypoint"'
  expect((await cli.run(['exec', 'check', '-c', command])).stdout).toBe('a\nmade\ncontent\n1\nfrom entrypoint\n')
  await cli.run(['rm', '-f', 'check'])
})

test('a failing step is shown with its line, its exit code and its output', async () => {
  put('bad/Dockerfile', 'FROM small:1\n\nRUN echo about to fail; exit 7\n')
  const failed = await image(['build', 'bad', '-t', 'bad:1'])
  expect(failed).toMatchObject({ code: 3, stdout: '' })
  expect(failed.stderr).toContain(
    '      about to fail\nsandglass: image bad:1 was not built: step 2 of 2 (RUN echo about to fail; exit 7) at line 3 ended with exit code 7\n',
  )
})

test.each([
  ['FROM small:1\nHEALTHCHECK CMD true\n', 2, 'line 2 has HEALTHCHECK, which a build without a Docker engine does not support'],
  ['FROM small:1\nRUN --mount=type=cache,target=/x true\n', 2, 'line 2 has RUN --mount, which is not supported'],
  ['FROM small:1\nADD https://example.com/x /x\n', 2, 'line 2 has an ADD'],
  ['FROM small:1\nCOPY missing /x\n', 3, 'missing is not in the build context'],
  ['FROM small:1\nCOPY ../a /x\n', 3, '../a leads out of the build context'],
])('the Dockerfile %j is refused', async (text, code, message) => {
  put('refused/Dockerfile', text)
  expect(await image(['build', 'refused'])).toMatchObject({ code, stderr: expect.stringContaining(message) })
})

test('a builder can be asked for', async () => {
  expect(await image(['build', 'app', '--builder', 'docker'])).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('building images needs a Docker engine'),
  })
  expect(await image(['build', 'app', '--builder', 'podman'])).toMatchObject({ code: 2 })
  expect(await image(['save', 'app:1'])).toMatchObject({ code: 2, stderr: expect.stringContaining('-o FILE is missing') })
})

test('a step reaches what build_policies allow and nothing else, and the image does not trust the daemon', {
  timeout: 150_000,
}, async () => {
  const mirror = ['deb', 'debian', 'org'].join('.')
  // The mirror is on the internet: a connection that breaks once is not what this is about.
  const fetch = 'busybox wget -q -O /release http://$HOST/debian/dists/stable/Release'
  put(
    'net/Dockerfile',
    `FROM small:1\nARG HOST\nRUN ${fetch} || ${fetch} || ${fetch}\nRUN busybox wget -q -O - http://example.com/ || echo refused; ls -1 /etc/ssl/sandglass\n`,
    connected,
  )
  const built = await connected.run(['image', 'build', 'net', '-t', 'net:1', '--build-arg', `HOST=${mirror}`], {
    cwd: connected.home,
  })
  expect(built, built.stderr).toMatchObject({ code: 0 })
  expect(built.stderr).toMatch(/refused\n {6}bundle\.pem\n {6}ca\.pem\n/)
  expect(await connected.run(['new', 'net', '--image', 'net:1'])).toMatchObject({ code: 0 })
  const { stdout } = await connected.run(['exec', 'net', '-c', 'busybox head -1 /release; ls /etc/ssl 2>&1'])
  expect(stdout).toMatch(/^Origin: Debian\n.*No such file/)
  await connected.run(['rm', '-f', 'net'])
  // The launcher for the next session may still make its disk.
  await expect.poll(() => leftovers(connected.dataDir)).toMatchObject({ processes: [], folders: [] })
})

test('a daemon that is killed during a build leaves nothing after the next start', async () => {
  put('slow/Dockerfile', 'FROM small:1\nRUN echo x > /x; echo waiting; sleep 1000\n')
  let hasBegun = () => undefined as unknown
  const begun = new Promise(resolve => {
    hasBegun = () => resolve(undefined)
  })
  const build = image(['build', 'slow'], { onStderr: text => void (text.includes('      waiting\n') && hasBegun()) })
  await begun
  expect(readdirSync(join(cli.dataDir, 'sessions'))).toHaveLength(1)
  const { daemonPid } = cli
  process.kill(daemonPid, 'SIGKILL')
  await deadline('the daemon is gone', () => !isAlive(daemonPid))
  expect(await build).toMatchObject({ code: expect.any(Number), stdout: '' })
  expect((await cli.run(['ls', '--json'])).stdout).toBe('[]\n')
  const NOTHING = { processes: [], mounts: [], loops: [], cgroups: [], folders: [] }
  await deadline('nothing is left', async () => JSON.stringify(leftovers(cli.dataDir)) === JSON.stringify(NOTHING))
  await expect.poll(() => readdirSync(join(cli.dataDir, 'images/import'))).toEqual([])
})
