import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { buildContext } from '../build-context.ts'
import { readTar } from './read-tar.ts'
import { unpack } from './unpack.ts'
import { END, headerOf, type NewEntry, padding } from './write-tar.ts'

let home: string
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'sandglass-sdk-tar-'))
  await mkdir(join(home, 'from'))
  await mkdir(join(home, 'to'))
})
afterEach(() => rm(home, { recursive: true, force: true }))

/** In pieces that end anywhere. */
async function* inPieces(bytes: Uint8Array, size = 700): AsyncGenerator<Uint8Array, void, undefined> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

const archive = (...entries: (NewEntry & { content?: string })[]) =>
  Buffer.concat([
    ...entries.flatMap(({ content = '', ...entry }) => {
      const bytes = Buffer.from(content)
      return [...headerOf({ ...entry, size: bytes.length }), bytes, padding(bytes.length)]
    }),
    END,
  ])
const file = (name: string, content = 'x') => ({ name, type: 'file', mode: 0o777, content }) as const
const unpacked = (tar: Uint8Array) => unpack(inPieces(tar), join(home, 'to'))

test.each(['ustar', 'gnu', 'pax'])('files and folders of a %s archive are unpacked, without links', async format => {
  const long = `${'folder'.repeat(12)}/${'name'.repeat(30)}-ü`
  await mkdir(join(home, 'from', long, '..'), { recursive: true })
  if (format !== 'ustar') await writeFile(join(home, 'from', long), 'long')
  await writeFile(join(home, 'from/a.json'), '{"a":1}'.repeat(1000))
  await writeFile(join(home, 'from/empty'), '')
  await symlink('/etc/passwd', join(home, 'from/link'))
  const tar = execFileSync('tar', ['-C', join(home, 'from'), `--format=${format}`, '-cf', '-', '.'])
  expect(await unpacked(tar)).toBe(1)
  expect(await readFile(join(home, 'to/a.json'), 'utf8')).toBe('{"a":1}'.repeat(1000))
  expect((await readdir(join(home, 'to'))).sort()).toEqual(['a.json', 'empty', 'folder'.repeat(12)])
  if (format !== 'ustar') expect(await readFile(join(home, 'to', long), 'utf8')).toBe('long')
  expect((await stat(join(home, 'to/a.json'))).mode & 0o777).toBe(0o600)
})

test.each([
  ['has an absolute name', archive(file('/etc/evil'))],
  ['leads out of the folder', archive(file('a/../../evil'))],
  ['has the same file twice', archive(file('a'), file('a'))],
  ['puts a file below a file', archive(file('a'), file('a/b'))],
  ['is too deep', archive(file('a/'.repeat(100)))],
  ['is cut in a body', archive(file('a', 'x'.repeat(2000))).subarray(0, 1500)],
  ['has no end', archive(file('a')).subarray(0, 1024)],
  ['is damaged', Buffer.from(archive(file('a'))).fill(1, 20, 24)],
  ['is no archive', Buffer.alloc(4096, 'x')],
])('an archive that %s is refused', async (_, tar) => {
  await expect(unpacked(tar)).rejects.toThrow()
  expect(existsSync(join(home, 'evil'))).toBe(false)
})

test('a long header is refused before it is read', async () => {
  const [header] = headerOf({ name: 'pax', type: 'file', mode: 0o644, size: 10 ** 9 })
  const bytes = Buffer.from(header ?? [])
  bytes.write('x', 156)
  bytes.write('        ', 148)
  bytes.write(
    `${bytes
      .reduce((sum, byte) => sum + byte, 0)
      .toString(8)
      .padStart(6, '0')}\0 `,
    148,
  )
  await expect(unpacked(bytes)).rejects.toThrow('too long')
})

test('a body that is not read is skipped', async () => {
  const names: string[] = []
  for await (const { name } of readTar(inPieces(archive(file('a', 'x'.repeat(3000)), file('b'))))) names.push(name)
  expect(names).toEqual(['a', 'b'])
})

test('a build context has the files of the folder and the Dockerfile, and tar reads it', async () => {
  const from = join(home, 'from')
  const deep = 'folder'.repeat(20)
  await mkdir(join(from, deep))
  await writeFile(join(from, deep, 'x'), 'deep')
  await writeFile(join(from, 'run.sh'), '#!/bin/sh\n')
  await chmod(join(from, 'run.sh'), 0o755)
  await symlink('run.sh', join(from, 'start'))
  await writeFile(join(home, 'Dockerfile'), 'FROM debian\n')
  const { dockerfile, tar } = await buildContext(join(home, 'Dockerfile'), from)
  const pieces: Uint8Array[] = []
  for await (const piece of tar) pieces.push(piece)
  execFileSync('tar', ['-C', join(home, 'to'), '-xf', '-'], { input: Buffer.concat(pieces) })
  expect(await readFile(join(home, 'to', dockerfile), 'utf8')).toBe('FROM debian\n')
  expect(await readFile(join(home, 'to', deep, 'x'), 'utf8')).toBe('deep')
  expect(await readFile(join(home, 'to/start'), 'utf8')).toBe('#!/bin/sh\n')
  expect((await stat(join(home, 'to/run.sh'))).mode & 0o100).toBe(0o100)
})
