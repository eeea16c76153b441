// gVisor, if `tools/dev setup` could download it.
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { traces } from '../conformance/host-view.ts'
import { inBox, specOf, until } from '../conformance/subject.ts'
import { conformance } from '../conformance/suite.ts'
import { RUNSC } from '../limitations.ts'
import { ociDataDir, openTestOci } from './oci.fixture.ts'

const root = fileURLToPath(new URL('../../../../../', import.meta.url))
const runnerPath = join(root, 'runner/bin/runner')
const runsc = join(root, '.cache/gvisor/runsc')
const starter = fileURLToPath(new URL('./starter.fixture.ts', import.meta.url))
const dataDir = ociDataDir()

const subjectOf = (runtime: string) => ({
  open: () => openTestOci({ dataDir, runtime, runnerPath }),
  starter: [process.execPath, starter, dataDir, runtime, runnerPath],
  allowUnenforced: [],
  patience: 2,
})

if (existsSync(runsc)) {
  const subject = subjectOf(runsc)
  conformance('oci with runsc', subject, RUNSC)

  it('the folder of the runner’s socket is not accessible, even for root', async () => {
    await inBox(await subject.open(), subject, {}, async ({ machine, asRoot }) => {
      expect((await asRoot('echo x > /.sandglass-run/x')).code).not.toBe(0)
      expect((await asRoot('ln -s /etc/passwd /.sandglass-run/s')).code).not.toBe(0)
      expect(readdirSync(join(dataDir, 'run')).filter(name => name.startsWith(machine.id))).toEqual([`${machine.id}.sock`])
    })
  })

  it('programs can use threads and unix sockets, and own the files that they create', async () => {
    await inBox(await subject.open(), subject, {}, async ({ run, link }) => {
      const program = [
        'import socket, threading',
        'a, b = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)',
        'a.bind("/workspace/s"); a.listen(); b.connect("/workspace/s")',
        'thread = threading.Thread(target=lambda: print("threaded")); thread.start(); thread.join()',
      ].join('\n')
      await link.request('write', { path: 'program.py' }, { body: Buffer.from(program) })
      expect((await run('python3 program.py; stat -c %U program.py; uname -r')).output).toBe('threaded\nsandbox\n4.4.0')
    })
  })

  it('exceeding the memory limit ends the sandbox, and exitReason names the limit', async () => {
    await inBox(await subject.open(), subject, { memoryMb: 256 }, async ({ machine, run }) => {
      await expect(run('python3 -c "b = bytearray(400 << 20)"')).rejects.toThrow()
      await until('the sandbox is gone', async () => !(await machine.isRunning()))
      expect(await machine.exitReason()).toMatchObject({ limit: 'memory_mb' })
    })
  })

  it('changes in mounted host folders are visible, and writable mounts are refused', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sandglass-mount-'))
    chmodSync(folder, 0o755)
    writeFileSync(join(folder, 'f'), 'one')
    const mount = { source: folder, target: '/mnt/m', readonly: true }
    const backend = await subject.open()
    await inBox(backend, subject, { mounts: [mount] }, async ({ run }) => {
      expect((await run('cat /mnt/m/f; ls /mnt/m')).output).toBe('onef')
      rmSync(join(folder, 'f'))
      writeFileSync(join(folder, 'g'), 'longer')
      expect((await run('ls /mnt/m; stat -c %s /mnt/m/g')).output).toBe('g\n6')
    })
    const writable = specOf(subject, { mounts: [{ ...mount, readonly: false }] })
    await expect(backend.start(writable, AbortSignal.timeout(20_000))).rejects.toThrow('a writable mount with runsc')
    rmSync(folder, { recursive: true })
  })

  it('other users cannot open the commands of a root shell', async () => {
    await inBox(await subject.open(), subject, {}, async ({ asRoot, run }) => {
      await asRoot('true')
      const program = [
        'import os',
        'for n in os.listdir("/proc/1/fd"):',
        '  try:',
        '    if "memfd:command" in os.readlink(f"/proc/1/fd/{n}"): os.open(f"/proc/1/fd/{n}", os.O_RDWR); print("opened")',
        '  except PermissionError: print("refused")',
        '  except OSError: pass',
      ].join('\n')
      // The user may open the commands of its own shell.
      expect((await run(`python3 -c '${program}' | sort`)).output).toBe('opened\nrefused')
    })
  })

  it('a shell at its prompt accepts the next command', async () => {
    await inBox(await subject.open(), subject, {}, async ({ link, run }) => {
      await run('true')
      const attached = await link.stream('shell.attach', { name: 'main' })
      attached.close()
      expect((await run('echo taken')).output).toBe('taken')
    })
  })

  it('one session can use gVisor while others use the default runtime', async () => {
    const backend = await openTestOci({ dataDir, runtime: 'crun', runtimes: { gvisor: runsc }, runnerPath })
    await inBox(backend, subject, { runtime: 'gvisor' }, async ({ run }) => expect((await run('uname -r')).output).toBe('4.4.0'))
    await inBox(backend, subject, {}, async ({ run }) => expect((await run('uname -r')).output).not.toBe('4.4.0'))
  })

  it('a runtime that gives a sandbox the wrong user ids starts nothing, and the error says why', async () => {
    const path = join(dataDir, 'runsc-nobody')
    writeFileSync(path, `#!/bin/sh\nexec ${runsc} --directfs=false "$@"\n`, { mode: 0o755 })
    const [other, spec] = [subjectOf(path), specOf(subject)]
    const backend = await other.open()
    await expect(backend.start(spec, AbortSignal.timeout(20_000))).rejects.toThrow('gave the sandbox the ids [65534 65534 1]')
    expect(await backend.sessionIds()).toEqual([])
    expect(traces(spec.id)).toEqual([])
    expect(readdirSync(join(dataDir, 'run')).filter(name => name.startsWith(spec.id))).toEqual([])
  })
}

it('the exceptions of runsc are listed', () => {
  expect(Object.keys(RUNSC).length).toBeGreaterThan(0)
})
