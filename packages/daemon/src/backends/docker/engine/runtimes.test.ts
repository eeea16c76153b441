// The engine's runtimes: chosen by a session, or the engine's default.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, it, vi } from 'vitest'
import { daemonFixture } from '../../../testing/daemon.fixture.ts'
import { boxOf, inBox, specOf } from '../../conformance/subject.ts'
import { openDocker } from '../backend.ts'
import { dockerContext } from '../context.fixture.ts'
import { testEngine } from './engine.fixture.ts'

// A private engine starts slowly on a busy machine.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

/** runc behind a script that removes the process limit. */
const CARELESS = `#!${process.execPath}
const { existsSync, readFileSync, writeFileSync } = require('node:fs')
const args = process.argv.slice(2)
const config = (args[args.indexOf('--bundle') + 1] ?? '.') + '/config.json'
if (args.includes('create') && existsSync(config)) {
  const bundle = JSON.parse(readFileSync(config, 'utf8'))
  delete bundle.linux.resources.pids
  writeFileSync(config, JSON.stringify(bundle))
}
process.execve('/usr/sbin/runc', ['runc', ...args])
`
const runsc = fileURLToPath(new URL('../../../../../../.cache/gvisor/runsc', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'sandglass-docker-runtimes-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const [config, careless] = [join(folder, 'daemon.json'), join(folder, 'careless')]
writeFileSync(careless, CARELESS, { mode: 0o755 })
const gvisor = { path: runsc, runtimeArgs: ['--network=none'] }
writeFileSync(config, JSON.stringify({ runtimes: { gvisor, careless: { path: careless } } }))
const { options: plain, subject } = await dockerContext('--config-file', config)
const options = { ...plain, runtimes: ['gvisor', 'runc', 'careless', 'kata', 'io.containerd.kata.v2'] }
const open = async () => openDocker(options)
const soon = () => AbortSignal.timeout(60_000)
const FORGETS = { code: 'LIMIT_UNENFORCEABLE', detail: { backend: 'docker', limits: ['pids'], accept: ['disk', 'pids'] } }

it('a session with a runtime is reached through the engine, and the others use the engine’s default', async () => {
  const backend = await open()
  await inBox(backend, subject, { runtime: 'runc' }, async ({ run, machine }) => {
    expect(machine.mux).toBe(true)
    expect((await run('id -u')).output).toBe('1000')
  })
  await inBox(backend, subject, {}, async ({ machine }) => expect(machine.mux).toBe(false))
})

it('a session with a runtime is recovered by the next daemon, can be stopped while paused, and starts again', async () => {
  const spec = specOf(subject, { runtime: 'runc' })
  const first = boxOf(await (await open()).start(spec, soon()), spec, subject)
  await first.run('export KEPT=yes; cd /tmp; echo kept > /workspace/f')
  const backend = await open()
  const next = (await backend.recover()).find(({ id }) => id === spec.id)
  if (next === undefined) throw new Error('the machine was not found again')
  const second = boxOf(next, spec, subject)
  expect((await second.run('echo $KEPT; pwd')).output).toBe('yes\n/tmp')
  for (const { link } of [first, second]) link.close()
  await next.pause?.()
  await next.stop()
  expect(await next.isRunning()).toBe(false)
  const third = boxOf(await backend.start(spec, soon()), spec, subject)
  expect((await third.run('cat f')).output).toBe('kept')
  third.link.close()
  await backend.discard(spec.id)
})

it.each([
  ['nvidia', {}, 'UNSUPPORTED', 'backends.docker.runtimes names gvisor, runc, careless, kata'],
  ['kata', {}, 'BACKEND_UNAVAILABLE', 'the engine has no runtime kata: it has '],
  ['runc', { mounts: [{ source: folder, target: '/mnt/m', readonly: true }] }, 'UNSUPPORTED', 'mounts with docker and a runtime'],
])('the runtime %s with %o is refused, and nothing is created', async (runtime, changes, code, message) => {
  const [backend, spec] = [await open(), specOf(subject, { runtime, ...changes })]
  const refusal = { code, message: expect.stringContaining(message) }
  await expect(backend.checkRequirements?.(spec)).rejects.toMatchObject(refusal)
  await expect(backend.start(spec, soon())).rejects.toMatchObject(refusal)
  expect(await backend.sessionIds()).toEqual([])
})

it('a shim that the engine does not find fails the start with the engine’s message, and leaves nothing behind', async () => {
  const [backend, spec] = [await open(), specOf(subject, { runtime: 'io.containerd.kata.v2' })]
  await expect(backend.start(spec, soon())).rejects.toMatchObject({
    code: 'START_FAILED',
    message: expect.stringMatching(/kata/i),
  })
  await backend.discard(spec.id)
  expect(await backend.sessionIds()).toEqual([])
})

if (existsSync(runsc))
  it('a runtime that lets programs open the runner’s streams makes the start fail', async () => {
    const [backend, spec] = [await open(), specOf(subject, { runtime: 'gvisor' })]
    await expect(backend.start(spec, soon())).rejects.toThrow('lets every program of the sandbox open what the runner has open')
    await backend.discard(spec.id)
    expect(await backend.sessionIds()).toEqual([])
  })

it('a runtime that ignores a limit makes the start fail, unless the limit is accepted as unenforced', async () => {
  const [backend, spec] = [await open(), specOf(subject, { runtime: 'careless' })]
  await expect(backend.start(spec, soon())).rejects.toMatchObject(FORGETS)
  await backend.discard(spec.id)
  expect(await backend.sessionIds()).toEqual([])
  const machine = await backend.start({ ...spec, allowUnenforced: ['disk', 'pids'] }, soon())
  expect(machine.unenforced).toEqual(['disk', 'pids'])
  expect((await backend.recover()).map(({ unenforced }) => unenforced)).toEqual([['disk', 'pids']])
  await machine.destroy()
})

it('a session that is refused for an ignored limit leaves nothing behind', async () => {
  const daemon = await daemonFixture({
    flags: { 'backends-docker-allow-unenforced': ['disk'] },
    backends: dataDir => [openDocker({ ...options, dataDir })],
  })
  const { status, body } = await daemon.call('POST', '/v1/sessions', { backend: 'docker', runtime: 'careless' })
  expect([status, body]).toMatchObject([422, { error: FORGETS }])
  expect(readdirSync(join(daemon.dataDir, 'sessions'))).toEqual([])
  await daemon.close()
})

it('a default runtime of the engine that ignores a limit makes the start fail', async () => {
  const engine = await testEngine('--add-runtime', `careless=${careless}`, '--default-runtime', 'careless')
  try {
    const backend = openDocker({ ...plain, dataDir: join(folder, 'data'), endpoint: engine.endpoint })
    const spec = specOf(subject)
    await expect(backend.start(spec, soon())).rejects.toMatchObject(FORGETS)
    const machine = await backend.start({ ...spec, allowUnenforced: ['disk', 'pids'] }, soon())
    await engine.stop()
    await expect(machine.pause?.()).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  } finally {
    await engine.stop()
  }
})

it('a machine whose limits were not checked before its daemon died is ended by the next daemon', async () => {
  const spec = specOf(subject, { runtime: 'runc' })
  const machine = await (await open()).start(spec, soon())
  const record = join(plain.dataDir, 'sessions', spec.id, 'config.json')
  writeFileSync(record, JSON.stringify({ ...JSON.parse(readFileSync(record, 'utf8')), isChecked: false }))
  const next = await open()
  expect(await next.recover()).toEqual([])
  expect(await machine.isRunning()).toBe(false)
  await next.discard(spec.id)
})

it('runtimes() reports each runtime that sessions may use', async () => {
  const known = (name: string) => ({ name, version: 'known to the engine', why: null, fix: null })
  expect(await (await open()).runtimes?.()).toEqual([
    known('gvisor'),
    known('runc'),
    known('careless'),
    {
      name: 'kata',
      version: null,
      why: expect.stringContaining('the engine has no runtime kata'),
      fix: expect.stringContaining('daemon.json'),
    },
    { name: 'io.containerd.kata.v2', version: expect.stringContaining('a shim'), why: null, fix: null },
  ])
  const absent = openDocker({ ...options, endpoint: 'unix:///nonexistent.sock' })
  expect((await absent.runtimes?.())?.map(({ version }) => version)).toEqual([null, null, null, null, null])
})
