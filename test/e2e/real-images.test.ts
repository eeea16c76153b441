// The images of images/, built for real from Debian's packages and started on two backends, base on three. Two builds run at the same time, because they take more
// than a minute each: base and python through a Docker engine, node in a chroot.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { CliHome } from './cli-home.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 900_000 })

let engine: ChildProcess
let cli: CliHome

beforeAll(async () => {
  engine = spawn(process.execPath, [resolve('tools/docker-engine.ts')], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [line] = await once(engine.stdout ?? engine, 'data')
  const docker = { api_endpoint: `unix://${JSON.parse(String(line)).socket}`, allow_unenforced: ['disk'] }
  cli = await CliHome.open()
  mkdirSync(join(cli.home, '.sandglass'), { mode: 0o700 })
  const config = { listen: ['unix'], images: { build_network: 'host' }, backends: { docker } }
  writeFileSync(join(cli.home, '.sandglass/config.yaml'), JSON.stringify(config), { mode: 0o600 })
  expect(await cli.run(['ls'])).toMatchObject({ code: 0 })
  await Promise.all([build('base', 'python'), build('--chroot', 'node')])
})

afterAll(async () => {
  await cli?.close()
  engine?.stdin?.end()
  if (engine?.exitCode === null) await once(engine, 'exit')
})

async function build(...args: string[]): Promise<void> {
  const env = { ...cli.env, TMPDIR: cli.home }
  const child = spawn(resolve('images/build'), args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  expect(code, stderr).toBe(0)
}

/** For each image, a command and what it prints. */
const RUNTIMES = {
  base: ['git --version; bash --version', /^git version 2\..*^GNU bash, version 5\./ms],
  python: ['python --version; python3 -m venv /tmp/v && /tmp/v/bin/pip --version', /^Python 3\.11\..*^pip .*python 3\.11/ms],
  node: ['node --version; npm --version', /^v20\..*^\d+\.\d+\.\d+$/ms],
} as const

const CASES = (['base', 'python', 'node'] as const).flatMap(name =>
  (['oci', 'docker'] as const).map(backend => ({ name, backend: backend as 'oci' | 'docker' | 'microvm' })),
)
CASES.push({ name: 'base', backend: 'microvm' })

test.each(CASES)('the image $name runs on $backend as the user sandbox, who owns /workspace', async ({ name, backend }) => {
  const [command, output] = RUNTIMES[name]
  const session = `${name}-${backend}`
  const made = await cli.run(['new', session, '--backend', backend, '--image', `sandbox-runtime:${name}`])
  expect(made, made.stderr).toMatchObject({ code: 0 })
  const script = `id -un; pwd; stat -c %U:%G /workspace; touch /workspace/f && echo written; ${command}`
  const { stdout, stderr } = await cli.run(['exec', session, '-c', script])
  expect(stdout, stderr).toMatch(/^sandbox\n\/workspace\nsandbox:sandbox\nwritten\n/)
  expect(stdout, stderr).toMatch(output)
  expect(await cli.run(['rm', '-f', session])).toMatchObject({ code: 0 })
})

test.each(['oci', 'microvm'] as const)(
  'apt installs a package in a session on %s with the policy debian',
  { timeout: 600_000 },
  async backend => {
    const session = `apt-${backend}`
    const flags = ['--backend', backend, '--policy', 'debian', '--no-readonly-rootfs', '--memory', '1g', '--cpus', '2']
    const made = await cli.run(['new', session, '--image', 'sandbox-runtime:base', ...flags])
    expect(made, made.stderr).toMatchObject({ code: 0 })
    // Without the lists of translations: under emulation they take minutes.
    const apt = 'apt-get -o Acquire::Languages=none -o APT::Sandbox::User=root'
    const script = `${apt} update -qq 2>&1 && ${apt} install -yqq --no-install-recommends hello 2>&1 && hello`
    const { stdout, stderr } = await cli.run(['exec', session, '--user', 'root', '-c', script])
    expect(stdout, stderr).toContain('Hello, world!')
    expect(await cli.run(['rm', '-f', session])).toMatchObject({ code: 0 })
  },
)

test('apt downloads a package in a session on docker with the policy debian', async () => {
  const made = await cli.run([
    'new',
    'apt-docker',
    '--image',
    'sandbox-runtime:base',
    '--backend',
    'docker',
    '--policy',
    'debian',
    '--memory',
    '1g',
  ])
  expect(made, made.stderr).toMatchObject({ code: 0 })
  const script = `mkdir -p lists/partial cache/archives/partial && cp /var/lib/dpkg/status . &&
    options="-o Dir::State=/workspace -o Dir::State::status=/workspace/status -o Dir::Cache=/workspace/cache -o APT::Sandbox::User=sandbox" &&
    apt-get $options update -qq 2>&1; apt-get $options download hello 2>&1; ls`
  const { stdout, stderr } = await cli.run(['exec', 'apt-docker', '-c', script])
  expect(stdout, stderr).toMatch(/hello_\S+\.deb/)
  expect(await cli.run(['rm', '-f', 'apt-docker'])).toMatchObject({ code: 0 })
})
