// A small image in three layers, each compressed in another way: busybox, a file that a later layer takes away, and one that it changes.
import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { type Header, pack } from 'tar-stream'
import type { ImageLayer, LayeredImage } from './backend.ts'

const BUSYBOX = '/usr/bin/busybox'
const APPLETS = ['sh', 'ls', 'cat', 'id', 'echo', 'env', 'pwd', 'touch', 'stat', 'sleep', 'hostname', 'seq', 'wc']

type Entry = Partial<Header> & { name: string; content?: string | Buffer }

export async function busyboxImage(folder: string): Promise<LayeredImage> {
  const base: Entry[] = [
    { name: 'usr/bin/busybox', mode: 0o755, content: await readFile(BUSYBOX) },
    // As on most systems; whatever looks for /bin/sh follows it.
    { name: 'bin', type: 'symlink', linkname: 'usr/bin' },
    ...APPLETS.map(name => ({ name: `usr/bin/${name}`, type: 'symlink' as const, linkname: 'busybox' })),
    { name: 'etc/passwd', content: 'root:x:0:0:root:/root:/bin/sh\n' },
    { name: 'etc/group', content: 'root:x:0:\n' },
    { name: 'opt/gone', content: 'gone' },
    { name: 'opt/changed', content: 'old' },
  ]
  const second: Entry[] = [
    { name: 'opt/.wh.gone', content: '' },
    { name: 'opt/added', content: 'added' },
  ]
  const third: Entry[] = [{ name: 'opt/changed', content: 'new' }]
  const layers = [
    await layer(folder, base, 'gzip', gzipSync),
    await layer(folder, second, 'none', tar => tar),
    await layer(folder, third, 'zstd', zstdCompressSync),
  ]
  const content = JSON.stringify({ os: 'linux', rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) } })
  const id = `sha256:${createHash('sha256').update(content).digest('hex')}`
  const config = join(folder, id.slice('sha256:'.length))
  await writeFile(config, content)
  return { kind: 'layers', reference: 'busybox:test', id, config, layers, env: { FROM_IMAGE: 'yes' } }
}

async function layer(
  folder: string,
  entries: readonly Entry[],
  compression: ImageLayer['compression'],
  compress: (tar: Buffer) => Buffer,
): Promise<ImageLayer> {
  const archive = pack()
  for (const { content, ...header } of entries) archive.entry({ mtime: new Date(0), ...header }, content ?? '')
  archive.finalize()
  const tar = await buffer(archive)
  const diffId = `sha256:${createHash('sha256').update(tar).digest('hex')}`
  const blob = join(folder, diffId.slice('sha256:'.length))
  await writeFile(blob, compress(tar))
  return { diffId, blob, compression }
}
