// What is left when records are lost, a runtime is removed, or the host has changed.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { traces } from '../conformance/host-view.ts'
import { boxOf, specOf } from '../conformance/subject.ts'
import { openOci } from './backend.ts'
import { pruneImages } from './prune-images.ts'
import type { MachineRecord } from './record.ts'

const runnerPath = fileURLToPath(new URL('../../../../../runner/bin/runner', import.meta.url))
const dataDir = mkdtempSync(join(tmpdir(), 'sandglass-oci-'))
const subject = { open: () => openOci({ dataDir, runtime: 'auto', runnerPath }), starter: [], allowUnenforced: [] }
afterAll(() => rmSync(dataDir, { recursive: true, force: true }))
const lose = (id: string) => {
  for (const folder of ['sessions', 'run/oci']) rmSync(join(dataDir, folder, id), { recursive: true, force: true })
}
const start = async () => await (await subject.open()).start(specOf(subject), AbortSignal.timeout(20_000))

describe('a machine whose records are lost', () => {
  it('ends when the next daemon opens', async () => {
    const lost = await start()
    const damaged = await start()
    lose(lost.id)
    writeFileSync(join(dataDir, 'sessions', damaged.id, 'config.json'), '{"version":1,')
    const kept = await start()
    const began = performance.now()
    const next = await subject.open()
    expect(performance.now() - began).toBeLessThan(5000)
    expect(await lost.isRunning()).toBe(false)
    expect(await damaged.isRunning()).toBe(false)
    expect((await next.recover()).map(({ id }) => id)).toEqual([kept.id])
    expect(traces(lost.id)).toEqual([])
    await next.discard(damaged.id)
    await next.discard(kept.id)
  })

  it('ends when it is discarded', async () => {
    const backend = await subject.open()
    const [lost, kept] = [await start(), await start()]
    lose(lost.id)
    await backend.discard(lost.id)
    expect(await lost.isRunning()).toBe(false)
    expect(await kept.isRunning()).toBe(true)
    await kept.destroy()
  })
})

describe('without the runtime that started it', () => {
  it('a machine can still be discarded', async () => {
    const machine = await start()
    const next = await openOci({ dataDir, runtime: '/no/such/crun', runnerPath })
    const path = join(dataDir, 'sessions', machine.id, 'config.json')
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), runtime: ['/no/such/crun'] }))
    await next.discard(machine.id)
    expect(await machine.isRunning()).toBe(false)
    expect(await next.residents()).not.toContain(machine.id)
    expect(existsSync(join(dataDir, 'run/oci', machine.id))).toBe(false)
    expect(traces(machine.id)).toEqual([])
  })
})

describe('the compiled system call filter', () => {
  it('is in no file: one that was planted is removed and has no effect', async () => {
    const planted = join(dataDir, 'run', 'seccomp-0123456789abcdef.bpf')
    writeFileSync(planted, Buffer.alloc(8))
    const backend = await subject.open()
    for (const _ of [1, 2]) {
      const spec = specOf(subject)
      const box = boxOf(await backend.start(spec, AbortSignal.timeout(20_000)), spec, {})
      expect((await box.run('unshare -U true')).output).toContain('Operation not permitted')
      box.link.close()
      await box.machine.destroy()
    }
    expect(readdirSync(join(dataDir, 'run')).filter(name => name.endsWith('.bpf'))).toEqual([])
  })
})

describe('images that no machine has', () => {
  it('are removed, and what a machine has stays', async () => {
    const dir = join(dataDir, 'pruning')
    const [old, used, current] = ['0', '1', '2'].map(digit => digit.repeat(16))
    for (const name of [`host-${old}`, `host-${used}`, `host-${current}`, `runner-v2-${old}`, `runner-v2-${used}`, 'empty'])
      mkdirSync(join(dir, name), { recursive: true })
    writeFileSync(join(dir, `runner-${old}`), '')
    mkdirSync(join(dir, `host-${old}.123.new`, 'etc'), { recursive: true })
    const record = { rootfs: `host-${used}`, runner: `runner-v2-${used}` } as MachineRecord
    await pruneImages(dir, [`host-${current}`], [record, { ...record, runner: undefined }])
    expect(readdirSync(dir)).toHaveLength(6)
    await pruneImages(dir, [`host-${current}`], [record])
    expect(readdirSync(dir).toSorted()).toEqual(['empty', `host-${used}`, `host-${current}`, `runner-v2-${used}`])
  })
})
