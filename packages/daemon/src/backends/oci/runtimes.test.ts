// What differs between OCI runtimes, and what must not.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { traces } from '../conformance/host-view.ts'
import { KERNEL } from '../conformance/kernel.ts'
import { inBox, specOf, until } from '../conformance/subject.ts'
import { openOci } from './backend.ts'
import { GROUP_NAME, parentName } from './cgroups.ts'
import { readState } from './record.ts'

const runnerPath = fileURLToPath(new URL('../../../../../runner/bin/runner', import.meta.url))
const starter = fileURLToPath(new URL('./starter.fixture.ts', import.meta.url))
const dataDir = mkdtempSync(join(tmpdir(), 'sandglass-oci-'))
const subjectOf = (runtime: string) => ({
  open: () => openOci({ dataDir, runtime, runnerPath }),
  starter: [],
  allowUnenforced: [],
})
afterAll(() => rmSync(dataDir, { recursive: true, force: true }))

const FILTERED = 'Seccomp:\t2\nSeccomp_filters:\t1'
const DEVICES = '/sys/fs/cgroup/devices'
const hasDevices = readFileSync('/proc/self/mountinfo', 'utf8').includes(` ${DEVICES} `)

describe('a runtime that is only known by its path', () => {
  const path = join(dataDir, 'some-runtime')
  symlinkSync('/usr/sbin/runc', path)
  const subject = subjectOf(path)

  it('starts a machine within its limits, and forgets it', async () => {
    const backend = await subject.open()
    await inBox(backend, subject, { memoryMb: 300 }, async ({ machine, run }) => {
      expect((await run('echo $((6 * 7))')).output).toContain('42')
      expect((await machine.stats()).memoryLimit).toBe(300 * 1024 * 1024)
      expect(await backend.residents()).toEqual([machine.id])
      await machine.destroy()
      expect(traces(machine.id)).toEqual([])
    })
    expect(await backend.residents()).toEqual([])
  })

  it('knows a machine whose folder is lost', async () => {
    const machine = await (await subject.open()).start(specOf(subject), AbortSignal.timeout(20_000))
    rmSync(join(dataDir, 'sessions', machine.id), { recursive: true })
    const next = await subject.open()
    expect(await next.residents()).toContain(machine.id)
    await next.discard(machine.id)
    expect(await machine.isRunning()).toBe(false)
    expect(await next.residents()).not.toContain(machine.id)
  })
})

describe.each(['crun', 'runc'])('with %s', runtime => {
  it('the first machine and those after it have the same filter of system calls', async () => {
    const subject = subjectOf(runtime)
    const backend = await subject.open()
    const seen: string[] = []
    for (const _ of [1, 2])
      await inBox(backend, subject, {}, async ({ run }) => {
        seen.push((await run('grep -h Seccomp /proc/1/status /proc/1/task/*/status /proc/self/status | sort -u')).output)
      })
    expect(seen).toEqual([FILTERED, FILTERED])
    for (const check of Object.values(KERNEL)) await check(backend, subject)
  })
})

describe.runIf(hasDevices).each(['crun', 'runc'])('with %s and a cgroup for each controller', runtime => {
  it('a launcher that waits for the next start goes with its daemon, however that dies', async () => {
    const own = mkdtempSync(join(dataDir, 'own-'))
    const spec = specOf(subjectOf(runtime))
    const groups = () => readdirSync(join(DEVICES, parentName(own))).filter(name => GROUP_NAME.test(name))
    const child = spawn(process.execPath, [starter, own, runtime, runnerPath, JSON.stringify(spec)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(child.stdout, 'data')
    await until('the next launcher is in its groups', () => groups().length === 2)
    child.kill('SIGKILL')
    await until('only the machine is in its groups', () => groups().length === 1)
    await (await openOci({ dataDir: own, runtime, runnerPath })).discard(spec.id)
  })

  it('a machine may use terminals and the devices that hold nothing', async () => {
    const subject = subjectOf(runtime)
    await inBox(await subject.open(), subject, {}, async ({ machine, run }) => {
      const state = await readState(join(dataDir, 'sessions', machine.id))
      const group = readFileSync(`/proc/${state?.pid}/cgroup`, 'utf8').match(/:devices:(.*)/)?.[1]
      expect(
        readFileSync(join(DEVICES, group ?? '', 'devices.list'), 'utf8')
          .trim()
          .split('\n'),
      ).toEqual(['1:3', '1:5', '1:7', '1:8', '1:9', '5:0', '5:2', '136:*'].map(numbers => `c ${numbers} rw`))
      expect((await run('head -c 4 /dev/urandom | wc -c; echo x >/dev/null; tty')).output).toMatch(/4\s+\/dev\/pts\//)
    })
  })
})
