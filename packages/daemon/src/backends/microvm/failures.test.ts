// Failures of virtual machines: each has a clear error and leaves nothing behind.

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { traces } from '../conformance/host-view.ts'
import { boxOf, specOf, until } from '../conformance/subject.ts'
import { openMicrovm } from './backend.ts'
import { WAITING_LINE } from './boot/guest-console.ts'
import { removeTestMicrovm, testMicrovm } from './microvm.fixture.ts'
import { monitor } from './qemu/monitor.ts'

const options = await testMicrovm()
afterAll(() => removeTestMicrovm(options))
const subject = { allowUnenforced: [], patience: 4 }
const signal = () => AbortSignal.timeout(80_000)
const TIMEOUT = { timeout: 120_000 }
const folder = (id: string) => join(options.dataDir, 'sessions', id)
const processId = (id: string): number => JSON.parse(readFileSync(join(folder(id), 'state.json'), 'utf8')).pid

describe('a virtual machine that cannot start', () => {
  it('is reported as unavailable without QEMU', async () => {
    const backend = openMicrovm({ ...options, qemu: '/no/such/qemu' })
    expect(await backend.probe()).toMatchObject({ available: false, why: '/no/such/qemu does not run' })
    await expect(backend.start(specOf(subject), signal())).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(await backend.sessionIds()).toEqual([])
  })

  it('is reported with the package to install if there is no kernel', async () => {
    const backend = openMicrovm({ ...options, kernel: '/no/such/kernel' })
    expect(await backend.probe()).toMatchObject({ available: false, fix: expect.stringContaining('linux-image-cloud') })
  })

  it('is reported as unavailable if the kernel path is another file or a folder', async () => {
    const dataDir = mkdtempSync(`${options.dataDir}-k`)
    const image = join(dataDir, 'vmlinuz-none')
    writeFileSync(image, 'not a kernel')
    for (const kernel of [image, dataDir])
      expect(await openMicrovm({ ...options, kernel }).probe()).toMatchObject({
        available: false,
        why: expect.stringContaining('is not a kernel'),
      })
    rmSync(dataDir, { recursive: true })
  })

  it('because its kernel panics fails with the last lines of its boot log, and leaves only that log', TIMEOUT, async () => {
    const initramfs = join(options.dataDir, 'no-initramfs')
    writeFileSync(initramfs, 'not an initramfs')
    const extraArgs = ['-initrd', initramfs]
    const backend = openMicrovm({ ...options, extraArgs })
    const spec = specOf(subject)
    await expect(backend.start(spec, signal())).rejects.toThrow(/failed to start:.*Kernel panic/)
    expect(await backend.sessionIds()).toEqual([])
    expect(traces(spec.id)).toEqual([])
    expect(readdirSync(folder(spec.id))).toEqual(['logs'])
    expect(readFileSync(join(folder(spec.id), 'logs/boot.log'), 'latin1')).toContain('Kernel panic')
    const again = openMicrovm(options)
    await (await again.start(spec, signal())).destroy()
    expect(existsSync(folder(spec.id))).toBe(false)
  })

  it('is refused with an OCI runtime', async () => {
    const requirements = { ...specOf(subject), runtime: 'crun' }
    await expect(openMicrovm(options).checkRequirements?.(requirements)).rejects.toMatchObject({ code: 'UNSUPPORTED' })
  })

  it('is refused with nested virtualisation but without KVM', async () => {
    const backend = openMicrovm({ ...options, accel: 'tcg' })
    const requirements = specOf(subject, { nestedVirt: true })
    const refusal = {
      code: 'UNSUPPORTED',
      message: expect.stringContaining('KVM does not work here'),
      hint: expect.stringContaining('leave it out'),
    }
    await expect(backend.checkRequirements?.(requirements)).rejects.toMatchObject(refusal)
    await expect(backend.start(requirements, signal())).rejects.toMatchObject(refusal)
    expect(await backend.sessionIds()).toEqual([])
  })

  it('is refused if the data folder makes the paths of its sockets too long', () => {
    expect(() => openMicrovm({ ...options, dataDir: `/${'x'.repeat(90)}` })).toThrow('too long for unix sockets')
  })
})

describe('a running virtual machine', () => {
  it('ends with a reason if QEMU is killed, and starts again with its files', TIMEOUT, async () => {
    const backend = openMicrovm(options)
    const spec = specOf(subject)
    const machine = await backend.start(spec, signal())
    const box = boxOf(machine, spec, subject)
    await box.run('echo kept > f; sync f')
    process.kill(processId(spec.id), 'SIGKILL')
    await until('the machine is gone', async () => !(await machine.isRunning()))
    expect(await machine.exitReason()).toMatchObject({
      limit: null,
      text: expect.stringContaining('QEMU was killed by signal 9'),
    })
    box.link.close()
    const again = boxOf(await backend.start(spec, signal()), spec, subject)
    expect((await again.run('cat f')).output).toBe('kept')
    again.link.close()
    await again.machine.destroy()
    expect(traces(spec.id)).toEqual([])
  })

  it('ends if it resets itself, as after a panic', TIMEOUT, async () => {
    const backend = openMicrovm(options)
    const machine = await backend.start(specOf(subject), signal())
    await monitor(join(options.dataDir, 'run', `${machine.id}.monitor`), command => command('system_reset'))
    await until('the machine is gone', async () => !(await machine.isRunning()))
    expect((await machine.exitReason()).text).toContain('QEMU ended with status 0')
    await machine.destroy()
    expect(readdirSync(join(options.dataDir, 'run')).filter(name => name.includes(machine.id))).toEqual([])
  })

  it('keeps its token in config.json only, and its environment in no file', TIMEOUT, async () => {
    const backend = openMicrovm(options)
    const machine = await backend.start(specOf(subject, { env: { SECRET: 'sk-in-no-file' } }), signal())
    expect(statSync(join(folder(machine.id), 'config.json')).mode & 0o777).toBe(0o600)
    for (const file of ['config.json', 'state.json', 'logs/boot.log']) {
      const text = readFileSync(join(folder(machine.id), file), 'utf8')
      expect(text).not.toContain('sk-in-no-file')
      expect(text.includes(machine.token)).toBe(file === 'config.json')
    }
    for (const name of ['monitor', 'control', 'carrier'])
      expect(statSync(join(options.dataDir, 'run', `${machine.id}.${name}`)).mode & 0o777).toBe(0o600)
    await machine.destroy()
  })

  it(
    'shares no random numbers, boot id, name or token with another machine from the same snapshot, and its clock is right',
    TIMEOUT,
    async () => {
      const backend = openMicrovm(options)
      const observe = async (name: string) => {
        const spec = specOf(subject, { name })
        const machine = await backend.start(spec, signal())
        const box = boxOf(machine, spec, subject)
        const log = readFileSync(join(folder(spec.id), 'logs/boot.log'), 'utf8')
        const { output } = await box.run(
          'head -c 32 /dev/urandom | sha256sum; head -c 32 /dev/random | sha256sum; cat /proc/sys/kernel/random/boot_id; hostname; date +%s; python3 -c "import os, uuid; print(os.urandom(16).hex(), uuid.uuid4())"',
        )
        const { bootId } = await box.link.connect()
        box.link.close()
        await machine.destroy()
        const [urandom, random, kernel, host, clock, python] = output.split('\n')
        expect(log).not.toContain(WAITING_LINE)
        expect(host).toBe(name)
        expect(Math.abs(Number(clock) - Date.now() / 1000)).toBeLessThan(60)
        return [urandom, random, kernel, python, bootId, machine.token]
      }
      const [one, two] = [await observe('one'), await observe('two')]
      for (const [i, value] of one.entries()) expect(value).not.toBe(two[i])
    },
  )
})
