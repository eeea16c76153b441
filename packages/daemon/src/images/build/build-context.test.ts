import { readdir, readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { extract, pack } from 'tar-stream'
import { describe, expect, it } from 'vitest'
import { daemonFixture } from '../../testing/daemon.fixture.ts'
import { type Entry, tarOf } from '../testing/image.fixture.ts'
import { receiveContext } from './build-context.ts'

const never = new AbortController().signal

async function receiver(flags: Record<string, string[]> = {}) {
  const { context } = await daemonFixture({ flags })
  const receive = async (tar: Buffer) => await receiveContext(context, 'app', Readable.from([tar]), ['Dockerfile'], never)
  return {
    receive,
    of: async (...entries: Entry[]) => await receive(await tarOf(entries)),
    left: () => readdir(context.images.importDir),
  }
}

const file = (name: string, content = '', mode = 0o644): Entry => ({ name, content, mode })
const link = (name: string, linkname: string): Entry => ({ name, type: 'symlink', linkname })
const DEVICE = (async () => {
  const archive = pack()
  archive.entry({ name: 'null', type: 'character-device', devmajor: 1, devminor: 3 })
  archive.finalize()
  return await buffer(archive)
})()

describe('a build context', () => {
  it('has the same digest for the same content in any order', async () => {
    const { of } = await receiver()
    const { digest } = await of(file('Dockerfile', 'FROM a'), file('d/f', 'x'), link('l', 'd/f'))
    expect((await of(link('./l', 'd/f'), file('./d/f', 'x'), file('Dockerfile', 'FROM a'))).digest).toBe(digest)
    expect((await of(link('l', 'd/f'), file('d/f', 'x'), file('Dockerfile', 'FROM a'), file('.sandglass.overlay'))).digest).toBe(
      digest,
    )
    const others = [
      [file('Dockerfile', 'FROM a'), file('d/f', 'y'), link('l', 'd/f')],
      [file('Dockerfile', 'FROM a'), file('d/f', 'x', 0o755), link('l', 'd/f')],
      [file('Dockerfile', 'FROM a'), file('d/f', 'x'), link('l', 'd')],
      [file('Dockerfile', 'FROM a'), file('d/g', 'x'), link('l', 'd/f')],
    ]
    for (const other of others) expect((await of(...other)).digest).not.toBe(digest)
  })

  it('is stored as a tar that can be appended to, with the text of the Dockerfile and .dockerignore', async () => {
    const { receive, left } = await receiver()
    const tar = await tarOf([file('Dockerfile', 'FROM a'), file('.dockerignore', '*.o'), file('d/f', 'x'.repeat(70_000))])
    const context = await receive(gzipSync(tar))
    expect([context.text('Dockerfile'), context.text('.dockerignore'), context.text('other')]).toEqual([
      'FROM a',
      '*.o',
      undefined,
    ])
    const more = pack()
    more.entry({ name: 'more' }, 'm')
    more.finalize()
    const kept = (await readFile(context.path)).subarray(0, context.bytes)
    const names: string[] = []
    for await (const entry of Readable.from([kept, await buffer(more)]).pipe(extract())) {
      names.push(`${entry.header.name} ${entry.header.size}`)
      entry.resume()
    }
    expect(names).toEqual(['Dockerfile 6', '.dockerignore 3', 'd/f 70000', 'more 1'])
    await context[Symbol.asyncDispose]()
    expect(await left()).toEqual([])
  })

  it.each<[string, Entry[]]>([
    ['its name is absolute', [file('/etc/passwd')]],
    ['leads outside the folder', [file('../evil')]],
    ['leads outside the folder', [file('a/../../evil')]],
    ['which leads outside the folder', [link('l', '../../etc')]],
    ['which leads outside the folder', [link('d/l', 'x/../../../etc')]],
    ['is below l, which is not a folder', [link('l', '/etc'), file('l/passwd')]],
    ['is below f, which is not a folder', [file('f'), file('f/g')]],
    ['has the name of a folder', [file('d/f'), link('d', '/etc')]],
    ['appears twice', [file('f'), file('./f')]],
    ['a hard link to a file that does not come before it', [{ name: 'h', type: 'link', linkname: 'f' }, file('f')]],
    ['its name is absolute', [{ name: 'h', type: 'link', linkname: '/etc/passwd' }]],
  ])('is refused if an entry %s', async (issue, entries) => {
    const { of, left } = await receiver()
    await expect(of(file('Dockerfile'), ...entries)).rejects.toMatchObject({
      code: 'ARCHIVE_UNSAFE',
      message: expect.stringContaining(issue),
    })
    expect(await left()).toEqual([])
  })

  it('is refused if it is not a tar, has a device, or is too large', async () => {
    const { receive, of, left } = await receiver({ 'images-max-context-bytes': ['1000'] })
    await expect(receive(await DEVICE)).rejects.toMatchObject({ code: 'ARCHIVE_UNSAFE' })
    await expect(receive(Buffer.alloc(5000, 'x'))).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
    await expect(receive((await tarOf([file('f', 'x'.repeat(900))])).subarray(0, 700))).rejects.toMatchObject({
      code: 'INVALID_REQUEST',
    })
    await expect(of(file('a', 'x'.repeat(600)), file('b', 'x'.repeat(600)))).rejects.toMatchObject({ code: 'IMAGE_TOO_LARGE' })
    await of(
      { name: 'd', type: 'directory' },
      file('f', 'x'),
      { name: 'h', type: 'link', linkname: 'f' },
      link('abs', '/etc/hosts'),
    )
    expect(await left()).toHaveLength(1)
  })
})
