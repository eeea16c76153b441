import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { pack } from 'tar-stream'
import { expect, it, onTestFinished } from 'vitest'
import { type Entry, layerFrom, layerOf, type TestLayer } from '../../images/testing/image.fixture.ts'
import { findInLayers } from './find-in-layers.ts'
import { imageOf } from './image.fixture.ts'

const PASSWD = '/etc/passwd'
const file = (name: string, content: string): Entry => ({ name, content })
const link = (name: string, linkname: string): Entry => ({ name, linkname, type: 'symlink' })

const passwdIn = async (...layers: readonly Entry[][]) =>
  passwdInLayers(await Promise.all(layers.map(entries => layerOf(entries))))

async function passwdInLayers(layers: readonly TestLayer[]) {
  const dir = mkdtempSync(join(tmpdir(), 'sandglass-find-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  const made = layers.map(({ tar, diffId }, i) => {
    const blob = join(dir, String(i))
    writeFileSync(blob, tar)
    return { diffId, blob, compression: 'none' as const }
  })
  const image = { kind: 'layers' as const, reference: 'test', id: 'sha256:0', layers: made, config: '', env: {} }
  const { [PASSWD]: found } = await findInLayers(image, [PASSWD], AbortSignal.timeout(20_000))
  return found?.content === undefined ? found?.kind : Buffer.from(found.content, 'base64').toString()
}

it('the file of the uppermost layer is found', async () => {
  expect(await passwdIn([file('etc/passwd', 'old')], [file('etc/passwd', 'new')])).toBe('new')
})

it('links are followed, also those of folders', async () => {
  expect(await passwdIn([link('etc', 'usr/etc'), link('usr/etc/passwd', '../../real'), file('real', 'behind two links')])).toBe(
    'behind two links',
  )
})

it.each([
  ['a file', 'etc/.wh.passwd'],
  ['a folder', '.wh.etc'],
  ['the content of a folder', 'etc/.wh..wh..opq'],
  ['the content of the root', '.wh..wh..opq'],
])('nothing is found after a layer deletes %s', async (_, whiteout) => {
  expect(await passwdIn([file('etc/passwd', 'old')], [file(whiteout, '')])).toBe('')
  expect(await passwdIn([file('etc/passwd', 'old')], [file(whiteout, ''), file('etc/passwd', 'new')])).toBe('new')
})

it('the search ends when links lead below themselves or in a circle', async () => {
  expect(await passwdIn([link('etc', 'etc/more')])).toBe('')
  expect(await passwdIn([link('etc', 'a'), link('a', 'etc')])).toBe('')
  expect(await passwdIn([link('etc', 'a/b'), link('a', 'etc/c'), link('etc/passwd', 'etc/d')])).toBe('')
})

it('an invalid tar fails with IMAGE_INVALID', async () => {
  // A global header gives the next entry a size beyond the end of the layer.
  const archive = pack()
  archive.entry({ name: 'global', type: 'pax-global-header', pax: { size: '9999' } } as never)
  archive.entry({ name: `etc/${'long/'.repeat(60)}name`, type: 'file' }, 'x')
  archive.finalize()
  await expect(passwdInLayers([layerFrom(await buffer(archive))])).rejects.toMatchObject({ code: 'IMAGE_INVALID' })
})

async function find(paths: readonly string[], ...layers: readonly Entry[][]) {
  const dir = mkdtempSync(join(tmpdir(), 'sandglass-find-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  return await findInLayers(
    await imageOf(
      dir,
      layers.map(entries => ({ entries })),
    ),
    paths,
    AbortSignal.timeout(20_000),
  )
}

it('the result says where a path leads to, also for a folder that no entry names', async () => {
  const found = await find(
    ['/etc/ssl', '/link/file', '/gone'],
    [file('etc/ssl/x', ''), link('link', 'a/b'), file('a/b/file', 'f')],
  )
  expect(found).toEqual({
    '/etc/ssl': { kind: 'folder', path: '/etc/ssl' },
    '/link/file': { kind: 'file', path: '/a/b/file', content: 'Zg==' },
    '/gone': { kind: '' },
  })
})

it('a path with * stands for the paths in that folder, with links followed and without deleted ones', async () => {
  const base = [
    link('jvm', 'opt/jvm'),
    file('opt/jvm/a/lib/cacerts', 'a'),
    file('opt/jvm/b/lib/cacerts', 'b'),
    file('opt/jvm/d/lib/x', ''),
  ]
  const found = await find(['/jvm/*/lib/cacerts'], base, [link('opt/jvm/c', 'a'), file('opt/jvm/.wh.b', '')])
  expect(Object.entries(found).map(([path, { path: real }]) => [path, real])).toEqual([
    ['/jvm/a/lib/cacerts', '/opt/jvm/a/lib/cacerts'],
    ['/jvm/c/lib/cacerts', '/opt/jvm/a/lib/cacerts'],
  ])
})

it('a hard link has the content of its file, and keeps it when the file is replaced', async () => {
  const hard: Entry = { name: 'etc/passwd', type: 'link', linkname: 'lib/passwd' }
  expect(await passwdIn([file('lib/passwd', 'linked'), hard], [file('lib/passwd', 'other')])).toBe('linked')
})

it('the content of many large files is bounded', async () => {
  const entries = Array.from({ length: 20 }, (_, i) => ({ name: `f${i}`, content: Buffer.alloc(1024 * 1024) }))
  const found = await find(
    entries.map(({ name }) => `/${name}`),
    entries,
  )
  const bytes = Object.values(found).reduce((total, { content = '' }) => total + Buffer.from(content, 'base64').length, 0)
  expect([Object.keys(found).length, bytes]).toEqual([20, 8 * 1024 * 1024])
})
