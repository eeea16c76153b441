// Runtimes of the engine: gVisor, where `tools/dev setup` could fetch it.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, it } from 'vitest'
import { boxOf, inBox, specOf, until } from '../conformance/subject.ts'
import { conformance } from '../conformance.ts'
import { DOCKER_RUNSC } from '../limitations.ts'
import { openDocker } from './backend.ts'
import { dockerWorld } from './world.fixture.ts'

const runsc = fileURLToPath(new URL('../../../../../.cache/gvisor/runsc', import.meta.url))
const starter = fileURLToPath(new URL('./starter.fixture.ts', import.meta.url))
/** runc, which forgets how many processes a container may have. */
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
const folder = mkdtempSync(join(tmpdir(), 'sandglass-docker-runtimes-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const config = join(folder, 'daemon.json')
const careless = join(folder, 'careless')
writeFileSync(careless, CARELESS, { mode: 0o755 })
const gvisor = { path: runsc, runtimeArgs: ['--network=none'] }
writeFileSync(config, JSON.stringify({ runtimes: { gvisor, careless: { path: careless } } }))
const world = await dockerWorld('--config-file', config)
const options = { ...world.options, runtimes: ['gvisor', 'runc', 'careless', 'kata', 'io.containerd.kata.v2'] }
const open = async () => openDocker(options)
const PAUSED_MS = 1500
const soon = () => AbortSignal.timeout(30_000)

if (existsSync(runsc)) {
  const subject = {
    ...world.subject,
    open,
    starter: [process.execPath, starter, JSON.stringify(options)],
    runtime: 'gvisor',
    hasOwnKernel: true,
    patience: 2,
  } as const
  conformance('docker with runsc', subject, DOCKER_RUNSC)

  it('one session may ask for it, and the others have the engine’s own', async () => {
    const backend = await open()
    await inBox(backend, subject, {}, async ({ run, machine }) => {
      expect(machine.mux).toBe(true)
      expect((await run('uname -r')).output).toBe('4.4.0')
      expect((await run('touch /x; id -u; sudo -n id -u')).output).toMatch(/cannot touch.*\n1000\n/)
    })
    await inBox(backend, world.subject, {}, async ({ run, machine }) => {
      expect(machine.mux).toBe(false)
      expect((await run('uname -r')).output).not.toBe('4.4.0')
    })
  })

  it('a paused machine stands still', async () => {
    await inBox(await open(), subject, {}, async ({ machine, run }) => {
      await run('(while :; do date +%s%3N >> ticks; sleep 0.01; done) & true')
      const length = async () => Number((await run('wc -l < ticks')).output)
      await until('it ticks', async () => (await length()) > 5)
      await machine.pause?.()
      await delay(PAUSED_MS)
      await machine.resume?.()
      const count = await length()
      await until('it ticks again', async () => (await length()) > count)
      const ticks = (await run('cat ticks')).output.split('\n').map(Number)
      const gaps = ticks.slice(1).map((tick, i) => tick - (ticks[i] ?? 0))
      expect(Math.max(...gaps)).toBeGreaterThan(PAUSED_MS / 2)
    })
  })

  it('the next daemon takes it over', async () => {
    const spec = specOf(subject)
    const first = boxOf(await (await open()).start(spec, soon()), spec, subject)
    await first.run('export KEPT=yes; cd /tmp')
    const next = (await (await open()).recover()).find(({ id }) => id === spec.id)
    if (next === undefined) throw new Error('the machine was not found again')
    const second = boxOf(next, spec, subject)
    expect((await second.run('echo $KEPT; pwd; uname -r')).output).toBe('yes\n/tmp\n4.4.0')
    second.link.close()
    first.link.close()
    await next.destroy()
  })
}

it.each([
  ['nvidia', {}, 'UNSUPPORTED', 'backends.docker.runtimes names gvisor, runc, careless, kata'],
  ['kata', {}, 'BACKEND_UNAVAILABLE', 'the engine has no runtime kata: it has '],
  ['runc', { mounts: [{ source: folder, target: '/mnt/m', readonly: true }] }, 'UNSUPPORTED', 'mounts with docker and a runtime'],
])('the runtime %s with %o is refused, and nothing is made', async (runtime, changes, code, message) => {
  const [backend, spec] = [await open(), specOf(world.subject, { runtime, ...changes })]
  const refusal = { code, message: expect.stringContaining(message) }
  await expect(backend.refuse?.(spec)).rejects.toMatchObject(refusal)
  await expect(backend.start(spec, soon())).rejects.toMatchObject(refusal)
  expect(await backend.residents()).toEqual([])
})

it('a shim that the engine does not find fails the start with what the engine says, and leaves nothing', async () => {
  const [backend, spec] = [await open(), specOf(world.subject, { runtime: 'io.containerd.kata.v2' })]
  await expect(backend.start(spec, soon())).rejects.toMatchObject({
    code: 'START_FAILED',
    message: expect.stringMatching(/kata/i),
  })
  await backend.discard(spec.id)
  expect(await backend.residents()).toEqual([])
})

it('a runtime that forgets a limit starts nothing, unless sessions may go without it', async () => {
  const [backend, spec] = [await open(), specOf(world.subject, { runtime: 'careless' })]
  const refusal = { code: 'LIMIT_UNENFORCEABLE', detail: { backend: 'docker', limits: ['pids'] } }
  await expect(backend.start(spec, soon())).rejects.toMatchObject(refusal)
  await backend.discard(spec.id)
  expect(await backend.residents()).toEqual([])
  const machine = await backend.start({ ...spec, allowUnenforced: ['disk', 'pids'] }, soon())
  expect(machine.unenforced).toEqual(['disk', 'pids'])
  expect((await backend.recover()).map(({ unenforced }) => unenforced)).toEqual([['disk', 'pids']])
  await machine.destroy()
})

it('doctor is told of each that sessions may have', async () => {
  expect(await (await open()).runtimes?.()).toEqual([
    { name: 'gvisor', version: 'known to the engine', why: null, fix: null },
    { name: 'runc', version: 'known to the engine', why: null, fix: null },
    { name: 'careless', version: 'known to the engine', why: null, fix: null },
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
