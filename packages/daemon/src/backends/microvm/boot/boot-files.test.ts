import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { afterAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { NO_OVERCOMMIT } from '../../../data-dir/disk-policy.ts'
import { openMicrovm } from '../backend.ts'
import { MODULE_SETS, prepareBoot } from './boot-files.ts'
import { findKernel } from './find-kernel.ts'
import { collectModules } from './kernel-modules.ts'

const root = mkdtempSync(join(tmpdir(), 'sandglass-boot-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const moduleText = (name: string, needs: string) => Buffer.from(`\x7fELF ${name}\0license=GPL\0depends=${needs}\0name=${name}\0`)

/** An unpacked kernel package: an image whose header tells the version, and modules that need one another. */
function kernelPackage(name: string, version: string, modules: Record<string, string>): string {
  const dir = join(root, name)
  const image = Buffer.alloc(2048)
  image.write('HdrS', 0x202, 'latin1')
  image.writeUInt16LE(0x400, 0x20e)
  image.write(`${version} (somebody) #1`, 0x600, 'latin1')
  mkdirSync(join(dir, 'boot'), { recursive: true })
  writeFileSync(join(dir, 'boot', `vmlinuz-${version}`), image)
  const folder = join(dir, 'lib/modules', version)
  mkdirSync(join(folder, 'kernel/drivers/virtio'), { recursive: true })
  writeFileSync(join(folder, 'modules.builtin'), 'kernel/fs/ext4/ext4.ko\nkernel/fs/overlayfs/overlay.ko\n')
  for (const [file, needs] of Object.entries(modules)) {
    const path = join(folder, 'kernel/drivers/virtio', file)
    const content = moduleText(file.replace(/\.ko.*/, ''), needs)
    if (file.endsWith('.zst')) writeFileSync(path, zstdCompressSync(content))
    else if (file.endsWith('.gz')) writeFileSync(path, gzipSync(content))
    else if (file.endsWith('.xz')) writeFileSync(path, execFileSync('xz', ['-c'], { input: content }))
    else writeFileSync(path, content)
  }
  return dir
}

const BASE = {
  'virtio.ko': '',
  'virtio_ring.ko.xz': 'virtio',
  'virtio-mmio.ko': 'virtio,virtio_ring',
  'virtio_blk.ko.zst': 'virtio_ring,virtio',
  'virtio_console.ko.gz': 'virtio',
  'squashfs.ko': '',
}

describe('the modules of a kernel', () => {
  it('are collected after their dependencies, with any compression, and without built-in ones', async () => {
    const dir = kernelPackage('ordered', '6.1.0-1', BASE)
    const modules = await collectModules(join(dir, 'lib/modules/6.1.0-1'), MODULE_SETS.base)
    expect(modules.map(({ name }) => name)).toEqual([
      'virtio',
      'virtio_ring',
      'virtio_mmio',
      'virtio_blk',
      'virtio_console',
      'squashfs',
    ])
    for (const { content } of modules) expect(content.toString('latin1')).toContain('license=GPL')
  })

  it('are named if they are missing', async () => {
    const dir = kernelPackage('lacking', '6.1.0-1', { 'virtio.ko': '' })
    await expect(collectModules(join(dir, 'lib/modules/6.1.0-1'), ['virtio', 'squashfs'])).rejects.toThrow(
      'has no module squashfs',
    )
  })

  it('that cannot be read make the kernel unusable, and the error has a fix', async () => {
    const dir = kernelPackage('compressed', '6.1.0-1', { 'virtio.ko.xz': '' })
    const modules = join(dir, 'lib/modules/6.1.0-1')
    vi.stubEnv('PATH', '/nonexistent')
    onTestFinished(() => {
      vi.unstubAllEnvs()
    })
    await expect(collectModules(modules, ['virtio'])).rejects.toMatchObject({
      name: 'UnusableKernel',
      message: expect.stringContaining('xz is not installed'),
      fix: 'sudo apt-get install -y xz-utils',
    })
    writeFileSync(join(modules, 'kernel/drivers/virtio/broken.ko.gz'), 'no module')
    await expect(collectModules(modules, ['broken'])).rejects.toMatchObject({
      name: 'UnusableKernel',
      message: expect.stringMatching(/broken\.ko\.gz cannot be read/),
    })
  })

  it('make the backend unavailable if a required one is missing', async () => {
    const dir = kernelPackage('useless', '6.1.0-1', { 'virtio.ko': '' })
    const probe = await openMicrovm({
      dataDir: join(root, 'data'),
      runnerPath: fileURLToPath(new URL('../../../../../../runner/bin/runner', import.meta.url)),
      qemu: 'auto',
      kernel: join(dir, 'boot/vmlinuz-6.1.0-1'),
      accel: 'tcg',
      shareProto: 'virtiofs',
      diskFormat: 'qcow2',
      bridge: null,
      extraArgs: [],
      disk: NO_OVERCOMMIT,
    }).probe()
    expect(probe).toMatchObject({
      available: false,
      why: expect.stringMatching(/has no module virtio_/),
      fix: expect.stringContaining('backends.microvm.kernel'),
    })
  })
})

describe('the kernel', () => {
  it('is found by path with its modules beside it', async () => {
    const dir = kernelPackage('named', '6.9.1-cloud', BASE)
    const path = join(dir, 'boot/vmlinuz-6.9.1-cloud')
    expect(await findKernel(path, [])).toEqual({ path, version: '6.9.1-cloud', modulesDir: join(dir, 'lib/modules/6.9.1-cloud') })
    expect(await findKernel(join(root, 'nothing'), [])).toBeNull()
  })

  it('and its initramfs are copied once, are world-readable, and list the available drivers', async () => {
    const dir = kernelPackage('copied', '6.1.0-2', { ...BASE, 'virtiofs.ko': 'virtio' })
    const runner = join(root, 'runner')
    writeFileSync(runner, 'the runner')
    const kernel = { path: join(dir, 'boot/vmlinuz-6.1.0-2'), version: '6.1.0-2', modulesDir: join(dir, 'lib/modules/6.1.0-2') }
    const boot = await prepareBoot(kernel, runner, join(root, 'out'))
    expect(boot.sets).toEqual(['base', 'virtiofs'])
    expect(statSync(boot.initramfs).mode & 0o777).toBe(0o644)
    const archive = readFileSync(boot.initramfs)
    expect(archive.length % 4).toBe(0)
    expect(archive.toString('latin1', 0, 6)).toBe('070701')
    for (const part of [
      'init\0',
      'the runner',
      'settings.json\0',
      'modules/base.list\0',
      'modules/virtio_blk.ko\0',
      'TRAILER!!!',
    ])
      expect(archive.includes(part)).toBe(true)
    expect(boot).toMatchObject({ plainKernel: null, plainProblem: null })
    expect(await prepareBoot(kernel, runner, join(root, 'out'))).toEqual(boot)
    writeFileSync(runner, 'another runner')
    expect((await prepareBoot(kernel, runner, join(root, 'out'))).digest).not.toBe(boot.digest)
  })

  it('that cannot be decompressed is used as it is, with the reason, and tried again the next time', async () => {
    const dir = kernelPackage('unpacked', '6.1.0-3', BASE)
    const kernel = { path: join(dir, 'boot/vmlinuz-6.1.0-3'), version: '6.1.0-3', modulesDir: join(dir, 'lib/modules/6.1.0-3') }
    const image = readFileSync(kernel.path)
    const packed = Buffer.concat([execFileSync('xz', ['-c'], { input: 'no ELF' }), Buffer.from([6, 0, 0, 0])])
    image.writeUInt16LE(0x20f, 0x206)
    image.writeUInt8(1, 0x1f1)
    image.writeUInt32LE(1024, 0x248)
    image.writeUInt32LE(packed.length, 0x24c)
    writeFileSync(kernel.path, Buffer.concat([image, packed]))
    const prepare = () => prepareBoot(kernel, join(root, 'runner'), join(root, 'xz'))
    // Uncompressed modules, because reading compressed ones needs xz as well.
    const plain = kernelPackage('plain', '6.1.0-3', {
      'virtio.ko': '',
      'virtio_ring.ko': '',
      'virtio-mmio.ko': '',
      'virtio_blk.ko': '',
      'virtio_console.ko': '',
      'squashfs.ko': '',
    })
    Object.assign(kernel, { modulesDir: join(plain, 'lib/modules/6.1.0-3') })
    vi.stubEnv('PATH', '/nonexistent')
    onTestFinished(() => {
      vi.unstubAllEnvs()
    })
    expect(await prepare()).toMatchObject({ plainKernel: null, plainProblem: expect.stringContaining('xz') })
    vi.unstubAllEnvs()
    expect(await prepare()).toMatchObject({ plainKernel: null, plainProblem: null })
    expect(readdirSync(join(root, 'xz'))).toHaveLength(1)
  })
})
