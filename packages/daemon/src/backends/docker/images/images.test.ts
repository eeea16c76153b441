import { createHash } from 'node:crypto'
import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import Docker from 'dockerode'
import { type Header, pack } from 'tar-stream'
import { expect, it, vi } from 'vitest'
import type { LayeredImage } from '../../backend.ts'
import { boxOf, specOf } from '../../conformance/subject.ts'
import { busyboxImage, busyboxLayer, imageOf } from '../../rootfs/image.fixture.ts'
import { testAuthority } from '../../rootfs/trust/authority.fixture.ts'
import { openDocker } from '../backend.ts'
import { dockerContext } from '../context.fixture.ts'
import { IMAGE_LABEL } from '../engine/names.ts'

// A private engine starts slowly on a busy machine.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const { engine, dataDir, options, subject } = await dockerContext()
const soon = () => AbortSignal.timeout(30_000)

it('an image runs unchanged, with the user sandbox and its own environment', async () => {
  const backend = openDocker(options)
  const image = await busyboxImage(dataDir)
  const spec = specOf(subject, { image, env: { MINE: 'too' } })
  await backend.prepare({ image, trust: null }, soon())
  const box = boxOf(await backend.start(spec, soon()), spec, subject)
  expect(
    (await box.run('id -un; pwd; echo $FROM_IMAGE $MINE; ls -1 /opt; cat /opt/changed; touch f ~/g && echo ok')).output,
  ).toBe('sandbox\n/workspace\nyes too\nadded\nchanged\nsandglass\nnewok')
  box.link.close()
  await box.machine.destroy()
})

it('an image without a shell runs processes, and exec reports that there is no shell', async () => {
  const backend = openDocker(options)
  const full = await busyboxImage(dataDir)
  const image = { ...full, id: `sha256:${'1'.repeat(64)}`, layers: full.layers.slice(1) }
  const spec = specOf(subject, { image })
  const box = boxOf(await backend.start(spec, soon()), spec, subject)
  await expect(box.run('true')).rejects.toThrow('no shell in this image')
  const { message } = await box.link.request('process.start', { argv: ['/.sandglass/runner', '--help'] })
  expect(message.process).toMatchObject({ pid: expect.any(Number) })
  box.link.close()
  await box.machine.destroy()
})

it('pruneImages removes from the engine what no image of the store needs', async () => {
  const backend = openDocker(options)
  const image = await busyboxImage(dataDir)
  await backend.prepare({ image, trust: null }, soon())
  const client = new Docker({ socketPath: engine.endpoint.replace('unix://', '') })
  const keys = async () => (await client.listImages()).map(({ Labels }) => Labels?.[IMAGE_LABEL]).filter(key => key === image.id)
  expect(await keys()).toEqual([image.id])
  await backend.pruneImages?.([image], new Set())
  expect(await keys()).toEqual([image.id])
  await backend.pruneImages?.([], new Set())
  expect(await keys()).toEqual([])
})

it('pruneImages removes from the engine what was made for an old certificate authority', async () => {
  const backend = openDocker(options)
  const [old, current] = [testAuthority('/CN=Old'), testAuthority('/CN=Current')]
  const image = await busyboxImage(dataDir)
  for (const trust of [null, old, current]) await backend.prepare({ image, trust }, soon())
  const client = new Docker({ socketPath: engine.endpoint.replace('unix://', '') })
  const keys = async () =>
    (await client.listImages()).map(({ Labels }) => Labels?.[IMAGE_LABEL] ?? '').filter(key => key.startsWith(image.id))
  expect(await keys()).toHaveLength(3)
  await backend.pruneImages?.([image], new Set())
  expect(await keys()).toHaveLength(3)
  await backend.pruneImages?.([image], new Set(), current)
  expect(await keys()).toHaveLength(2)
  const spec = specOf(subject, { image, trust: old })
  const box = boxOf(await backend.start(spec, soon()), spec, subject)
  expect((await box.run('cat /etc/ssl/sandglass/ca.pem')).output).toBe(old.certificate.trim())
  await backend.pruneImages?.([image], new Set(), current)
  expect(await keys()).toHaveLength(3)
  box.link.close()
  await box.machine.destroy()
  await backend.pruneImages?.([], new Set(), current)
  expect(await keys()).toEqual([])
})

it('pruneImages keeps images that somebody committed from a session’s container', async () => {
  const backend = openDocker(options)
  const image = { ...(await busyboxImage(dataDir)), id: `sha256:${'5'.repeat(64)}` }
  const spec = specOf(subject, { image })
  const machine = await backend.start(spec, soon())
  const client = new Docker({ socketPath: engine.endpoint.replace('unix://', '') })
  const made = [{ repo: 'mine', tag: 'kept' }, {}].map(name => client.getContainer(machine.containerId).commit(name))
  const ids = (await Promise.all(made)).map(({ Id }) => Id)
  await machine.destroy()
  await backend.pruneImages?.([], new Set())
  for (const id of ids) expect((await client.getImage(id).inspect()).Id).toBe(id)
})

/** The busybox image with one more layer. */
async function withLayer(id: string, tar: Buffer): Promise<LayeredImage> {
  const image = await busyboxImage(dataDir)
  const diffId = `sha256:${createHash('sha256').update(tar).digest('hex')}`
  const blob = join(dataDir, `layer-${id}`)
  writeFileSync(blob, tar)
  const layers = [...image.layers, { diffId, blob, compression: 'none' as const }]
  return { ...image, id: `sha256:${id.repeat(64)}`, layers }
}

async function tarOf(header: Partial<Header> & { name: string }): Promise<Buffer> {
  const archive = pack()
  archive.entry(header)
  archive.finalize()
  return await buffer(archive)
}

it('an image with a device file is refused before anything is sent to the engine', async () => {
  const backend = openDocker(options)
  const device = await tarOf({ name: 'dev/console', type: 'character-device', devmajor: 5, devminor: 1, mode: 0o666 })
  // A link with a size in its header: some readers skip that many bytes, and the device with them.
  const link = await tarOf({ name: 'link', type: 'symlink', linkname: 'etc' })
  link.write('00000001000\0', 124, 'latin1')
  link.fill(' ', 148, 156)
  const sum = link.subarray(0, 512).reduce((total, byte) => total + byte, 0)
  link.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  for (const [id, tar] of [
    ['2', device],
    ['3', Buffer.concat([link.subarray(0, 512), device])],
  ] as const)
    await expect(backend.prepare({ image: await withLayer(id, tar), trust: null }, soon())).rejects.toMatchObject({
      code: 'IMAGE_INVALID',
      message: expect.stringContaining('dev/console'),
    })
})

it('a gzip layer with padding behind its stream is accepted', async () => {
  const backend = openDocker(options)
  const image = await imageOf(dataDir, [{ entries: [...(await busyboxLayer()), { name: 'opt/padded', content: 'yes' }] }])
  appendFileSync(image.layers[0]?.blob ?? '', Buffer.alloc(1000))
  const spec = specOf(subject, { image })
  const box = boxOf(await backend.start(spec, soon()), spec, subject)
  expect((await box.run('cat /opt/padded')).output).toBe('yes')
  box.link.close()
  await box.machine.destroy()
})

it('an image with the most layers that an engine accepts is loaded, and one more is refused', async () => {
  const backend = openDocker(options)
  const many = (count: number) =>
    imageOf(
      dataDir,
      Array.from({ length: count }, (_, i) => ({ entries: [{ name: `f${i}`, content: `${i}` }] })),
    )
  await backend.prepare({ image: await many(124), trust: null }, soon())
  await expect(backend.prepare({ image: await many(125), trust: null }, soon())).rejects.toMatchObject({
    code: 'IMAGE_TOO_LARGE',
    message: expect.stringContaining('more than the 124 layers'),
    hint: expect.stringContaining('--backend oci'),
  })
})

it('a link in an image in place of the socket’s folder is not followed', async () => {
  const backend = openDocker(options)
  const image = await withLayer('4', await tarOf({ name: '.sandglass-run', type: 'symlink', linkname: '/dev/kmsg' }))
  const spec = specOf(subject, { image })
  const box = boxOf(await backend.start(spec, soon()), spec, subject)
  expect((await box.run('echo here; readlink /.sandglass-run')).output).toBe('here')
  box.link.close()
  await box.machine.destroy()
})
