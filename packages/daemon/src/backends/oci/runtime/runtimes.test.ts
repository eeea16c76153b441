// The differences between OCI runtimes, and what all of them have in common.
import { spawn } from 'node:child_process'
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { type CgroupLayout, GROUP_NAME, parentName } from '../../cgroups/layout.ts'
import { traces } from '../../conformance/host-view.ts'
import { KERNEL } from '../../conformance/kernel.ts'
import { LIFECYCLE } from '../../conformance/lifecycle.ts'
import { LIMITS_HOLD } from '../../conformance/limits.ts'
import { boxOf, inBox, said, specOf, until } from '../../conformance/subject.ts'
import { WITHOUT_SYS_RESOURCE } from '../../limitations.ts'
import { ociDataDir, openTestOci } from '../oci.fixture.ts'
import { mayLimitProcesses } from '../probe.ts'
import { readState } from '../record.ts'
import { Runtimes } from './runtimes.ts'

const runnerPath = fileURLToPath(new URL('../../../../../../runner/bin/runner', import.meta.url))
const starter = fileURLToPath(new URL('../starter.fixture.ts', import.meta.url))
const dataDir = ociDataDir()
const subjectOf = (runtime: string) => ({
  open: () => openTestOci({ dataDir, runtime, runnerPath }),
  starter: [],
  allowUnenforced: [],
})

/** runc behind a script that hides its name. `change` is a sed program that changes its configuration, and `argv` are the arguments that it gets. */
function runtimeCalled(name: string, change = '', argv = '"$@"'): string {
  const path = join(dataDir, name)
  const isRun = `for word; do [ "$bundle" = next ] && bundle=$word; [ "$word" = --bundle ] && bundle=next; done`
  const configure = `[ -z "$bundle" ] || { text=$(sed '${change}' "$bundle/config.json"); rm "$bundle/config.json"; echo "$text" >"$bundle/config.json"; }`
  writeFileSync(
    path,
    `#!/bin/sh\n[ "$1" = --version ] && echo ${name} 1 && exit\n${change === '' ? '' : `${isRun}\n${configure}\n`}exec /usr/sbin/runc ${argv}\n`,
    { mode: 0o755 },
  )
  return path
}

const FILTERED = 'Seccomp:\t2\nSeccomp_filters:\t1'
const DEVICES = '/sys/fs/cgroup/devices'
const hasDevices = readFileSync('/proc/self/mountinfo', 'utf8').includes(` ${DEVICES} `)

describe('an unknown runtime', () => {
  const path = runtimeCalled('some-runtime')
  const subject = { ...subjectOf(path), starter: [process.execPath, starter, dataDir, path, runnerPath] }

  const without = mayLimitProcesses() ? {} : WITHOUT_SYS_RESOURCE
  const checks = Object.entries({ ...LIFECYCLE, ...LIMITS_HOLD }).filter(([title]) => !(title in without))
  it.each(checks)('%s', async (_, check) => {
    await check(await subject.open(), subject)
  })

  it('starts a machine within its limits, and keeps no record of it after destroy', async () => {
    const backend = await subject.open()
    await inBox(backend, subject, { memoryMb: 300 }, async ({ machine, run }) => {
      expect((await run('echo $((6 * 7))')).output).toContain('42')
      expect((await machine.stats()).memoryLimit).toBe(300 * 1024 * 1024)
      expect(await backend.sessionIds()).toEqual([machine.id])
      await machine.destroy()
      expect(traces(machine.id)).toEqual([])
    })
    expect(await backend.sessionIds()).toEqual([])
  })

  it('is asked for machines whose folder is lost', async () => {
    const machine = await (await subject.open()).start(specOf(subject), AbortSignal.timeout(20_000))
    rmSync(join(dataDir, 'sessions', machine.id), { recursive: true })
    const next = await subject.open()
    expect(await next.sessionIds()).toContain(machine.id)
    await next.discard(machine.id)
    expect(await machine.isRunning()).toBe(false)
    expect(await next.sessionIds()).not.toContain(machine.id)
  })
})

describe('the runtime that a session asks for', () => {
  const copy = join(dataDir, 'copied')
  const open = (runtime = 'crun') =>
    openTestOci({ dataDir, runtime, runtimes: { copied: copy, absent: '/no/such/runtime' }, runnerPath })
  const subject = { open, starter: [], allowUnenforced: [] }
  copyFileSync('/usr/sbin/runc', copy)
  const argvOf = (id: string): string[] => JSON.parse(readFileSync(join(dataDir, 'sessions', id, 'config.json'), 'utf8')).runtime

  it.each([
    [null, '/crun'],
    ['crun', '/crun'],
    ['runc', '/runc'],
    ['copied', '/copied'],
  ])('is %s: the machine is started with it within its limits, also after a stop', async (runtime, path) => {
    const backend = await open()
    const spec = specOf(subject, { runtime, memoryMb: 300 })
    for (const _ of ['first', 'again']) {
      const box = boxOf(await backend.start(spec, AbortSignal.timeout(20_000)), spec, {})
      expect((await box.run('echo $((6 * 7))')).output).toContain('42')
      expect((await box.machine.stats()).memoryLimit).toBe(300 * 1024 * 1024)
      expect(argvOf(spec.id)[0]).toMatch(new RegExp(`${path}$`))
      box.link.close()
      await box.machine.stop()
    }
    await backend.discard(spec.id)
    expect(traces(spec.id)).toEqual([])
  })

  it.each(['/usr/sbin/runc', '../sbin/runc', './runc', 'sh', 'auto', 'constructor', ''])(
    'is %j, which is not the name of a runtime: refused, and nothing is started',
    async runtime => {
      const backend = await open()
      await expect(backend.checkRequirements?.(specOf(subject, { runtime }))).rejects.toMatchObject({ code: 'UNSUPPORTED' })
      await expect(backend.start(specOf(subject, { runtime }), AbortSignal.timeout(20_000))).rejects.toMatchObject({
        code: 'UNSUPPORTED',
      })
      expect(await backend.sessionIds()).toEqual([])
    },
  )

  it('is not installed: the error says what to do', async () => {
    const backend = await open()
    await expect(backend.checkRequirements?.(specOf(subject, { runtime: 'absent' }))).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: expect.stringContaining('/no/such/runtime; put it there, or change backends.oci.runtimes.absent'),
    })
  })

  it('is removed from the configuration: its machines can still be ended', async () => {
    const machine = await (await open()).start(specOf(subject, { runtime: 'copied' }), AbortSignal.timeout(20_000))
    const next = await openTestOci({ dataDir, runtime: 'crun', runnerPath })
    expect((await next.recover()).map(({ id }) => id)).toEqual([machine.id])
    await next.discard(machine.id)
    expect(await machine.isRunning()).toBe(false)
    expect(traces(machine.id)).toEqual([])
  })

  it('can be the default of the configuration, by its name', async () => {
    expect(await (await open('copied')).probe()).toMatchObject({
      available: true,
      detail: expect.stringContaining('runc version'),
    })
    expect(await (await open('absent')).probe()).toMatchObject({
      available: false,
      why: expect.stringContaining('/no/such/runtime'),
    })
  })

  it('is reported with its version, or with the reason why it cannot be used', async () => {
    expect(await (await open()).runtimes?.()).toMatchObject([
      { name: 'crun', version: expect.stringContaining('crun version') },
      { name: 'runc', version: expect.stringContaining('runc version') },
      { name: 'copied', version: expect.stringContaining('runc version') },
      { name: 'absent', version: null, why: expect.stringContaining('does not exist') },
    ])
  })
})

it.each([
  ['kata-runtime  : 1.13.0-alpha0', 'auto'],
  ['Kata Containers containerd shim (Golang): id: "io.containerd.kata.v2", version: 3.2.0', 'auto'],
  ['Kata Containers containerd shim (Rust): id: io.containerd.kata.v2, version: 4.1.0', 'kata'],
])(
  'Kata with the version output %s is refused before anything is started, and the error says what to use instead',
  async (version, runtime) => {
    const kata = join(dataDir, 'kata')
    writeFileSync(kata, `#!/bin/sh\necho '${version}'\n`, { mode: 0o755 })
    const backend = await openTestOci({ dataDir, runtime, runtimes: { kata }, runnerPath })
    const told = { why: expect.stringContaining('Kata'), fix: expect.stringContaining('use --backend microvm') }
    if (runtime === 'kata') expect(await backend.probe()).toMatchObject({ available: false, ...told })
    else {
      expect(await backend.runtimes?.()).toMatchObject([{}, {}, { name: 'kata', version: null, ...told }])
      const start = backend.start(specOf(subjectOf('auto'), { runtime: 'kata' }), AbortSignal.timeout(20_000))
      await expect(start).rejects.toMatchObject({ code: 'UNSUPPORTED', message: expect.stringContaining('Kata') })
    }
    expect(await backend.sessionIds()).toEqual([])
  },
)

it.each([
  ['an ordinary user', { rootless: true, cgroups: null }, null, 'run the daemon as root'],
  ['root', { rootless: false, cgroups: { version: 1, roots: {} } as CgroupLayout }, 'runsc version release-1', null],
])('gVisor is reported to %s as usable or not', async (_, environment, version, fix) => {
  const gvisor = join(dataDir, 'runsc')
  writeFileSync(gvisor, '#!/bin/sh\necho runsc version release-1\n', { mode: 0o755 })
  const found = (await new Runtimes('auto', { gvisor }).report(environment)).find(({ name }) => name === 'gvisor')
  const why = version === null ? 'runsc version release-1 cannot be used by an ordinary user' : null
  expect(found).toEqual({ name: 'gvisor', version, why, fix })
})

describe('a runtime that ignores a part of its configuration', () => {
  it.each([
    ['no-filter', 's/"seccomp":{.*"maskedPaths"/"maskedPaths"/', /no seccomp filter/],
    ['own-users', 's/{"type":"user","path":"[^"]*"}/{"type":"user"}/', /not put the sandbox in its user namespace/],
    ['host-network', 's/{"type":"network"},//; s/"sysctl":{[^}]*},//', /no net namespace of its own|ended at once/],
  ])('%s: the start fails with the reason', async (name, change, why) => {
    const subject = subjectOf(runtimeCalled(name, change))
    const backend = await subject.open()
    const spec = specOf(subject)
    await expect(backend.start(spec, AbortSignal.timeout(20_000))).rejects.toThrow(why)
    expect(await backend.sessionIds()).toEqual([])
    expect(traces(spec.id)).toEqual([])
  })

  it('passes no socket on: the start fails with the reason', async () => {
    // The runtime inherits something else in place of the socket.
    const subject = subjectOf(runtimeCalled('no-socket', '', '"$@" 3</dev/null'))
    const backend = await subject.open()
    await expect(backend.start(specOf(subject), AbortSignal.timeout(20_000))).rejects.toThrow(/--preserve-fds|ended at once/)
    expect(await backend.sessionIds()).toEqual([])
  })
})

describe.each(['crun', 'runc'])('with %s', runtime => {
  it('exitReason of a machine that reached its process limit names the limit', async () => {
    const subject = subjectOf(runtime)
    await inBox(await subject.open(), subject, {}, async ({ machine, run, asRoot }) => {
      expect((await machine.exitReason()).text).toBe('the first process of the sandbox is gone')
      // One user alone reaches the limit of a user before the limit of the machine.
      const forks = 'import os, time\nfor _ in range(200): os.fork() or (time.sleep(20), os._exit(0))'
      for (const fork of [run, asRoot]) await fork(`python3 -c '${forks}' >/dev/null 2>&1`)
      expect((await machine.exitReason()).text).toContain('limit of processes (pids_limit)')
    })
  })

  it('the first machine and later ones have the same system call filter', async () => {
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
  it('a launcher that waits for the next start ends with its daemon, even if that is killed', async () => {
    const own = mkdtempSync(join(dataDir, 'own-'))
    const spec = specOf(subjectOf(runtime))
    const groups = () => readdirSync(join(DEVICES, parentName(own))).filter(name => GROUP_NAME.test(name))
    const child = spawn(process.execPath, [starter, own, runtime, runnerPath, JSON.stringify(spec)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await said(child, 'started')
    await until('the next launcher is in its groups', () => groups().length === 2)
    child.kill('SIGKILL')
    await until('only the machine is in its groups', () => groups().length === 1)
    await (await openTestOci({ dataDir: own, runtime, runnerPath })).discard(spec.id)
  })

  it('a machine may use only terminals and the standard devices', async () => {
    const subject = subjectOf(runtime)
    await inBox(await subject.open(), subject, {}, async ({ machine, run }) => {
      const state = await readState(join(dataDir, 'sessions', machine.id))
      const group = readFileSync(`/proc/${state?.pid}/cgroup`, 'utf8').match(/:devices:(.*)/)?.[1]
      expect(
        readFileSync(join(DEVICES, group ?? '', 'devices.list'), 'utf8')
          .trim()
          .split('\n'),
      ).toEqual(['1:3', '1:5', '1:7', '1:8', '1:9', '5:0', '5:2', '136:*'].map(numbers => `c ${numbers} rw`))
      expect((await run('head -c 4 /dev/urandom | wc -c; echo x >/dev/null; tty <&1')).output).toMatch(/4\s+\/dev\/pts\//)
    })
  })
})
