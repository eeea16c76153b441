import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { type Entry, tarOf } from '../images/testing/image.fixture.ts'
import { readEntries } from './tar-entries.ts'

const read = async (tar: Readable, names: string[] = []) =>
  await readEntries(tar, { image: 'app:1', issue: 'a layer is not a tar' }, AbortSignal.timeout(20_000), async ({ name }) => {
    names.push(name)
  })

/** One entry, of a kind that tar-stream does not write. */
async function special(kind: string, entry: Entry): Promise<Buffer> {
  const tar = (await tarOf([entry])).subarray(0, -1024)
  tar.write(kind, 156, 'latin1')
  tar.fill(' ', 148, 156)
  const sum = tar.subarray(0, 512).reduce((total, byte) => total + byte, 0)
  tar.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return tar
}

describe('reading a tar', () => {
  it.each<[string, () => Promise<Buffer> | Buffer]>([
    ['is not a tar', () => Buffer.alloc(2048, 'x')],
    ['is truncated', async () => (await tarOf([{ name: 'f', content: 'x'.repeat(5000) }])).subarray(0, 1500)],
    [
      'has a file that a global header makes longer than the tar',
      async () =>
        Buffer.concat([
          await special('g', { name: 'g', content: '13 size=9999\n' }),
          await special('x', { name: 'x', content: '9 path=f\n' }),
          await tarOf([{ name: 'f', content: 'x' }]),
        ]),
    ],
    [
      'has a header inside a file that a global header declares empty',
      async () =>
        Buffer.concat([
          await special('g', { name: 'g', content: '9 size=0\n' }),
          await special('x', { name: 'x', content: '9 path=f\n' }),
          await tarOf([
            { name: 'f', content: (await special('x', { name: 'x', content: 'x'.repeat(5_000_000) })).subarray(0, 512) },
          ]),
        ]),
    ],
  ])('that %s fails with IMAGE_INVALID', async (_, tar) => {
    await expect(read(Readable.from([await tar()]))).rejects.toMatchObject({
      code: 'IMAGE_INVALID',
      message: expect.stringContaining('a layer is not a tar'),
    })
  })

  it('passes on errors of the source', async () => {
    await expect(read(createReadStream('/nowhere/at/all'))).rejects.toMatchObject({ code: 'ENOENT' })
  })
})

it('every entry of a tar is reported, also if its content is not read', async () => {
  const names: string[] = []
  const tar = await tarOf(['a', 'b', 'c'].map(name => ({ name, content: 'x'.repeat(100_000) })))
  await read(Readable.from([tar.subarray(0, 70_000), tar.subarray(70_000)]), names)
  expect(names).toEqual(['a', 'b', 'c'])
})
