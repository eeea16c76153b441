import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { pack } from 'tar-stream'
import { expect, it, onTestFinished } from 'vitest'
import { type Entry, layerFrom, layerOf, type TestLayer } from '../../images/testing/image.fixture.ts'
import { findInLayers } from './find-in-layers.ts'

const PASSWD = '/etc/passwd'
const file = (name: string, content: string): Entry => ({ name, content })
const link = (name: string, linkname: string): Entry => ({ name, linkname, type: 'symlink' })

const look = async (...layers: readonly Entry[][]) => lookIn(await Promise.all(layers.map(entries => layerOf(entries))))

async function lookIn(layers: readonly TestLayer[]) {
  const dir = mkdtempSync(join(tmpdir(), 'sandglass-look-'))
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

it('finds what the uppermost layer has', async () => {
  expect(await look([file('etc/passwd', 'old')], [file('etc/passwd', 'new')])).toBe('new')
})

it('follows links, also of folders, to where they lead in the end', async () => {
  expect(await look([link('etc', 'usr/etc'), link('usr/etc/passwd', '../../real'), file('real', 'behind two links')])).toBe(
    'behind two links',
  )
})

it.each([
  ['a file', 'etc/.wh.passwd'],
  ['a folder', '.wh.etc'],
  ['the content of a folder', 'etc/.wh..wh..opq'],
  ['the content of the root', '.wh..wh..opq'],
])('finds nothing where a layer takes away %s', async (_, whiteout) => {
  expect(await look([file('etc/passwd', 'old')], [file(whiteout, '')])).toBe('')
  expect(await look([file('etc/passwd', 'old')], [file(whiteout, ''), file('etc/passwd', 'new')])).toBe('new')
})

it('ends where links lead below themselves, or in a circle', async () => {
  expect(await look([link('etc', 'etc/more')])).toBe('')
  expect(await look([link('etc', 'a'), link('a', 'etc')])).toBe('')
  expect(await look([link('etc', 'a/b'), link('a', 'etc/c'), link('etc/passwd', 'etc/d')])).toBe('')
})

it('says so of a layer that only seems to be one', async () => {
  // A header for all that follows makes the next one as long as the layer is not.
  const archive = pack()
  archive.entry({ name: 'global', type: 'pax-global-header', pax: { size: '9999' } } as never)
  archive.entry({ name: `etc/${'long/'.repeat(60)}name`, type: 'file' }, 'x')
  archive.finalize()
  await expect(lookIn([layerFrom(await buffer(archive))])).rejects.toMatchObject({ code: 'IMAGE_INVALID' })
})
