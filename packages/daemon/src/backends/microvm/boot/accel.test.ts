import { existsSync } from 'node:fs'
import { mkdir, readFile, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../../testing/daemon.fixture.ts'
import { RUNNER_PATH } from '../../plain-child/plain-child.fixture.ts'
import { microvmPaths } from '../paths.ts'
import { closedDevice, kvmProblem } from './accel.ts'
import { BOOTED_LINE } from './guest-console.ts'

it.each([
  ['ENOENT', 'there is no /dev/kvm', 'load kvm_intel or kvm_amd'],
  ['EACCES', 'this user may not open /dev/kvm', 'usermod -aG kvm'],
  ['EIO', '/dev/kvm cannot be opened (EIO)', 'ls -l /dev/kvm'],
])('a device that fails to open with %s is reported with a fix', (code, what, fix) => {
  expect(closedDevice(code)).toEqual({ what: expect.stringContaining(what), fix: expect.stringContaining(fix) })
})

/** A trial whose QEMU is a shell script, on a device that opens. */
async function trialOf(script: string) {
  const dataDir = await temporaryFolder()
  const paths = microvmPaths(dataDir)
  for (const dir of [paths.run, paths.boot]) await mkdir(dir, { recursive: true })
  const [qemu, file, runs] = ['qemu', 'file', 'runs'].map(name => join(dataDir, name)) as [string, string, string]
  await writeFile(qemu, `#!/bin/sh\necho "$*" >> ${runs}\n${script}\n`, { mode: 0o755 })
  await writeFile(file, '')
  const boot = { kernel: file, initramfs: file, plainKernel: null, plainProblem: null, digest: '0123456789abcdef', sets: [] }
  const input = { paths, runnerPath: RUNNER_PATH, qemu, boot, jailIds: null }
  return {
    run: (mayTakeSeconds = true) => kvmProblem(input, mayTakeSeconds, '/dev/null'),
    commands: async () => (existsSync(runs) ? (await readFile(runs, 'utf8')).trimEnd().split('\n') : []),
    /** Makes the stored result two hours old. */
    age: async () => {
      const then = Date.now() / 1000 - 7200
      const bootId = (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim()
      await utimes(join(paths.boot, `kvm-${bootId}-${boot.digest}`), then, then)
    },
  }
}

describe('the KVM trial', () => {
  it('boots one machine with KVM, and remembers that it works', async () => {
    const trial = await trialOf(`echo '${BOOTED_LINE}'`)
    expect(await trial.run(false)).toBeUndefined()
    expect(await trial.commands()).toEqual([])
    expect(await trial.run()).toBeNull()
    expect(await trial.commands()).toEqual([expect.stringContaining('-accel kvm')])
    await trial.age()
    expect(await trial.run(false)).toBeNull()
    expect(await trial.commands()).toHaveLength(1)
  })

  it('reports the error of QEMU, remembers it, and runs again after an hour', async () => {
    const trial = await trialOf("echo 'failed to initialize kvm: Operation not permitted'; exit 1")
    const problem = { what: expect.stringContaining('QEMU says: failed to initialize kvm'), fix: expect.any(String) }
    expect(await trial.run()).toEqual(problem)
    expect(await trial.run(false)).toEqual(problem)
    expect(await trial.commands()).toHaveLength(1)
    await trial.age()
    expect(await trial.run(false)).toBeUndefined()
    expect(await trial.run()).toEqual(problem)
    expect(await trial.commands()).toHaveLength(2)
  })

  it('kills a machine that does not boot', { timeout: 30_000 }, async () => {
    const trial = await trialOf('exec sleep 1000')
    expect(await trial.run()).toMatchObject({ what: expect.stringContaining('did not boot within 6 seconds') })
  })
})
