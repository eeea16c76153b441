// Small images for tests, as files.
import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { type Header, pack } from 'tar-stream'
import type { ImageLayer, LayeredImage } from '../backend.ts'

const BUSYBOX = '/usr/bin/busybox'
const APPLETS = ['sh', 'ls', 'cat', 'id', 'echo', 'env', 'pwd', 'touch', 'stat', 'sleep', 'hostname', 'seq', 'wc']
const COMPRESS = { none: (tar: Buffer) => tar, gzip: gzipSync, zstd: zstdCompressSync } as const

export type Entry = Partial<Header> & { name: string; content?: string | Buffer }
export type Layer = { entries: readonly Entry[]; compression?: ImageLayer['compression'] }

/** Programs in /usr/bin, and /bin as a link to it, as on most systems. */
export async function busyboxLayer(): Promise<Entry[]> {
  return [
    { name: 'usr/bin/busybox', mode: 0o755, content: await readFile(BUSYBOX) },
    { name: 'bin', type: 'symlink', linkname: 'usr/bin' },
    ...APPLETS.map(name => ({ name: `usr/bin/${name}`, type: 'symlink' as const, linkname: 'busybox' })),
    { name: 'etc/passwd', content: 'root:x:0:0:root:/root:/bin/sh\n' },
    { name: 'etc/group', content: 'root:x:0:\n' },
  ]
}

/** Three layers with different compressions: busybox with two more files, the removal of one of them, and a change of the other. */
export async function busyboxImage(folder: string): Promise<LayeredImage> {
  const base = [...(await busyboxLayer()), { name: 'opt/gone', content: 'gone' }, { name: 'opt/changed', content: 'old' }]
  const second = [
    { name: 'opt/.wh.gone', content: '' },
    { name: 'opt/added', content: 'added' },
  ]
  const layers: Layer[] = [
    { entries: base, compression: 'gzip' },
    { entries: second, compression: 'none' },
    { entries: [{ name: 'opt/changed', content: 'new' }], compression: 'zstd' },
  ]
  return await imageOf(folder, layers, { FROM_IMAGE: 'yes' })
}

export async function imageOf(folder: string, given: readonly Layer[], env: Record<string, string> = {}): Promise<LayeredImage> {
  const layers: ImageLayer[] = []
  for (const { entries, compression = 'gzip' } of given) layers.push(await layer(folder, entries, compression))
  const content = JSON.stringify({ os: 'linux', rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) } })
  const id = `sha256:${createHash('sha256').update(content).digest('hex')}`
  const config = join(folder, id.slice('sha256:'.length))
  await writeFile(config, content)
  return { kind: 'layers', reference: 'busybox:test', id, config, layers, env }
}

async function layer(folder: string, entries: readonly Entry[], compression: ImageLayer['compression']): Promise<ImageLayer> {
  const archive = pack()
  for (const { content, ...header } of entries) archive.entry({ mtime: new Date(0), ...header }, content ?? '')
  archive.finalize()
  const tar = await buffer(archive)
  const diffId = `sha256:${createHash('sha256').update(tar).digest('hex')}`
  const blob = join(folder, diffId.slice('sha256:'.length))
  await writeFile(blob, COMPRESS[compression](tar))
  return { diffId, blob, compression }
}
