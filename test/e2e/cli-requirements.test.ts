// What a session requires of its machine: a runtime, and folders of the host.
import { chownSync, mkdirSync, readFileSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliHome, WITHOUT_KVM } from './cli-home.ts'

const OWNER = 4321
let cli: CliHome
let shared: string
const run = (...args: string[]) => cli.run(args)

beforeAll(async () => {
  cli = await CliHome.open()
  shared = join(cli.home, 'shared/project')
  mkdirSync(shared, { recursive: true })
  writeFileSync(join(shared, 'hello'), 'from the host\n')
  chownSync(shared, OWNER, OWNER)
  mkdirSync(join(cli.home, '.sandglass'))
  const config = `mount_roots: [${join(cli.home, 'shared')}]\nbackends: { oci: { runtimes: { second: /usr/sbin/runc, absent: /no/such/runtime } } }\n`
  writeFileSync(join(cli.home, '.sandglass/config.yaml'), config, { mode: 0o600 })
})
afterAll(() => cli.close())

test('a session gets the requested runtime, and inspect shows it', async () => {
  for (const runtime of ['runc', 'second']) {
    expect(await run('new', runtime, '--backend', 'oci', '--runtime', runtime)).toMatchObject({ code: 0 })
    expect((await run('exec', runtime, '-c', 'echo works')).stdout).toBe('works\n')
    expect((await run('inspect', runtime)).stdout).toMatch(new RegExp(`^runtime +${runtime}$`, 'm'))
  }
  await run('stop', 'runc')
  expect(await run('start', 'runc')).toMatchObject({ code: 0 })
})

test('an unknown or missing runtime creates no session, and the error says what to do', async () => {
  const unknown = await run('new', '--backend', 'oci', '--runtime', '/usr/sbin/runc')
  expect(unknown).toMatchObject({ code: 3, stderr: expect.stringContaining('there are crun, runc, second, absent') })
  const absent = await run('new', '--backend', 'oci', '--runtime', 'absent')
  expect(absent).toMatchObject({ code: 3, stderr: expect.stringContaining('backends.oci.runtimes.absent') })
  expect(JSON.parse((await run('ls', '--all', '--json')).stdout)).toHaveLength(2)
})

test('doctor lists every runtime with its version, or why it does not work', async () => {
  const { stdout } = await cli.run(['doctor', '--json'], { env: WITHOUT_KVM })
  expect(JSON.parse(stdout).checks).toEqual(
    expect.arrayContaining([
      expect.objectContaining({
        name: 'backend oci: runtime crun',
        status: 'ok',
        detail: expect.stringContaining('crun version'),
      }),
      expect.objectContaining({
        name: 'backend oci: runtime second',
        status: 'ok',
        detail: expect.stringContaining('runc version'),
      }),
      expect.objectContaining({
        name: 'backend oci: runtime absent',
        status: 'missing',
        detail: expect.stringContaining('does not exist'),
      }),
    ]),
  )
})

test('a mounted folder is readable, writable only with :rw, and inspect shows it as requested', async () => {
  const [reads, writes] = [`${shared}:/data`, `${shared}:/workspace/project:rw`]
  expect(await run('new', 'folders', '--backend', 'oci', '--mount', reads, '--mount', writes)).toMatchObject({ code: 0 })
  expect((await run('exec', 'folders', '-c', 'cat /data/hello; touch /data/x')).stdout).toMatch(
    /from the host\n.*Read-only file system/s,
  )
  expect(await run('exec', 'folders', '-c', 'echo inside > project/made')).toMatchObject({ code: 0 })
  expect([statSync(join(shared, 'made')).uid, readFileSync(join(shared, 'made'), 'utf8')]).toEqual([OWNER, 'inside\n'])
  expect((await run('inspect', 'folders')).stdout.replaceAll(/\s+/g, ' ')).toContain(`mounts ${reads}, ${writes}`)
  expect(JSON.parse((await run('inspect', 'folders', '--json')).stdout).mounts).toEqual([
    { source: shared, target: '/data', readonly: true },
    { source: shared, target: '/workspace/project', readonly: false },
  ])
  const beside = await run('new', '--mount', `${cli.home}:/data`)
  expect(beside).toMatchObject({ code: 3, stderr: expect.stringContaining('not below mount_roots') })
})

test('a session does not start again when a link has replaced its mounted folder', async () => {
  await run('stop', 'folders')
  renameSync(shared, `${shared}.away`)
  symlinkSync(`${shared}.away`, shared)
  expect(await run('start', 'folders')).toMatchObject({ code: 3, stderr: expect.stringContaining('a link is in its place') })
})
