import { execFileSync } from 'node:child_process'
import { lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { pack } from './pack.ts'
import { BLOCK, checksum, encodeHeader, padding, type TarEntry } from './tar-header.ts'
import { unpack } from './unpack.ts'

let root: string
let target: string

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'unpack-'))
  target = join(root, 'target')
  await mkdir(target)
  onTestFinished(() => rm(root, { recursive: true, force: true }))
})

type Raw = Partial<TarEntry> & { name: string; content?: string; typeFlag?: string }

/** An archive with whatever names and types it is told to have. */
function archive(...entries: Raw[]): AsyncIterable<Uint8Array> {
  const blocks = entries.flatMap(({ content = '', typeFlag, ...entry }) => {
    const header = encodeHeader({
      type: 'file',
      mode: 0o644,
      modifiedAt: 1_700_000_000_000,
      size: Buffer.byteLength(content),
      ...entry,
    })
    const last = header.subarray(header.length - BLOCK)
    if (typeFlag) last.write(typeFlag, 156)
    if (entry.mode) last.write(`${entry.mode.toString(8).padStart(7, '0')}\0`, 100)
    last.write(`${checksum(last).toString(8).padStart(6, '0')}\0`, 148)
    return [header, Buffer.from(content), Buffer.alloc(padding(Buffer.byteLength(content)))]
  })
  return inPieces(Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]))
}

async function allOf(source: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const pieces: Uint8Array[] = []
  for await (const piece of source) pieces.push(piece)
  return pieces
}

async function* inPieces(bytes: Buffer, size = 700) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

const link = (name: string, to: string): Raw => ({ name, type: 'symlink', target: to })

test('files, folders and links inside come out with their modes, without set-id bits', async () => {
  const long = `${'d'.repeat(90)}/${'f'.repeat(90)}`
  const count = await unpack(
    archive(
      { name: 'bin', type: 'directory', mode: 0o755 },
      { name: 'bin/run', content: 'x', mode: 0o4755 },
      { name: long, content: 'long' },
      link('bin/again', 'run'),
      link('up', './bin/run'),
      { name: 'with\nnewline', content: '' },
    ),
    target,
  )
  expect(count).toBe(6)
  expect(((await lstat(join(target, 'bin/run'))).mode & 0o7777).toString(8)).toBe('755')
  expect(await readFile(join(target, long), 'utf8')).toBe('long')
  expect(await readlink(join(target, 'bin/again'))).toBe('run')
  expect(await readFile(join(target, 'up'), 'utf8')).toBe('x')
})

test.each<[string, Raw[]]>([
  ['its name is absolute', [{ name: '/tmp/evil', content: 'x' }]],
  ['its name leads out', [{ name: '../evil', content: 'x' }]],
  ['its name leads out', [{ name: 'a/../../evil', content: 'x' }]],
  ['may lead out', [link('l', '/etc')]],
  ['may lead out', [link('l', '../..')]],
  ['may lead out', [link('a/l', '../../x')]],
  ['may lead out', [link('a/b', '../x'), link('l', 'a/b/../..')]],
  ['is a device', [{ name: 'dev', typeFlag: '3' }]],
  ['is a device', [{ name: 'dev', typeFlag: '4' }]],
  ['is a pipe', [{ name: 'fifo', typeFlag: '6' }]],
  ['is a special file', [{ name: 'odd', typeFlag: 'Z' }]],
  ['a hard link to something', [{ name: 'h', type: 'symlink', target: 'passwd', typeFlag: '1' }]],
  ['its name is absolute', [{ name: 'h', type: 'symlink', target: '/etc/passwd', typeFlag: '1' }]],
])('an entry is refused when %s', async (reason, entries) => {
  await expect(unpack(archive({ name: 'a/keep', content: '' }, ...entries), target)).rejects.toMatchObject({
    code: 'ARCHIVE_UNSAFE',
    message: expect.stringContaining(reason),
  })
  expect(await readdir(root)).toEqual(['target'])
})

test('nothing is written through a link, whether it came first, last or was there before', async () => {
  const outside = join(root, 'outside')
  await mkdir(outside)
  await symlink(outside, join(target, 'there'))
  await expect(unpack(archive({ name: 'there/evil', content: 'x' }), target)).rejects.toThrow(
    'a symbolic link stands where its folder should be',
  )
  await expect(unpack(archive(link('l', 'inside'), { name: 'l/file', content: 'x' }), target)).rejects.toThrow()
  await unpack(archive({ name: 'there', content: 'replaced' }), target)
  expect(await readdir(outside)).toEqual([])
  expect(await readFile(join(target, 'there'), 'utf8')).toBe('replaced')
  expect((await lstat(join(target, 'there'))).isFile()).toBe(true)
})

test('an existing file that others link to is replaced and not written into', async () => {
  const precious = join(root, 'precious')
  await writeFile(precious, 'precious')
  execFileSync('ln', [precious, join(target, 'file')])
  await unpack(archive({ name: 'file', content: 'new' }), target)
  expect(await readFile(precious, 'utf8')).toBe('precious')
})

test('hard links to files of the archive are made', async () => {
  await unpack(archive({ name: 'a', content: 'same' }, { name: 'b', type: 'symlink', target: 'a', typeFlag: '1' }), target)
  expect(await readFile(join(target, 'b'), 'utf8')).toBe('same')
})

test('what the runner left out or could not read is reported and not unpacked', async () => {
  const told: string[] = []
  const comment = (text: string): Raw => ({ name: 'left-out', typeFlag: 'g', content: `${text.length + 12} comment=${text}\n` })
  const source = archive(
    comment('left out: socket a/s\nt'),
    { name: 'file', content: 'x' },
    comment('something else entirely'),
    comment('unreadable: b: permission denied'),
  )
  const unreadable: string[] = []
  const notes = { onLeftOut: (what: string) => told.push(what), onUnreadable: (what: string) => unreadable.push(what) }
  expect(await unpack(source, target, notes)).toBe(1)
  expect([told, unreadable]).toEqual([['socket a/s\nt'], ['b: permission denied']])
  expect(await readdir(target)).toEqual(['file'])
})

test('refused entries can be left out', async () => {
  const refused: string[] = []
  await unpack(
    archive({ name: '../evil', content: 'x'.repeat(2000) }, link('l', '/etc'), { name: 'good', content: 'y' }),
    target,
    { onSkip: error => refused.push(error.message) },
  )
  expect(refused).toHaveLength(2)
  expect(await readdir(target)).toEqual(['good'])
})

test('an archive that is cut short, damaged or absurd is an error', async () => {
  const whole = Buffer.concat(await allOf(archive({ name: 'file', content: 'x'.repeat(5000) })))
  await expect(unpack(inPieces(whole.subarray(0, 1500)), target)).rejects.toThrow('ends too early')
  const damaged = Buffer.from(whole)
  damaged[3] = 0x21
  await expect(unpack(inPieces(damaged), target)).rejects.toThrow('is damaged')
  await expect(unpack(archive({ name: 'meta', size: 0o77777777777, typeFlag: 'x' }), target)).rejects.toThrow('too long')
  await expect(unpack(archive({ name: 'PaxHeader', content: '99 path=x\n', typeFlag: 'x' }), target)).rejects.toThrow(
    'damaged header',
  )
})

test('what is packed here is read by tar, and what tar packs is unpacked here', async () => {
  const source = join(root, 'source')
  await mkdir(join(source, 'deep/er'), { recursive: true })
  await writeFile(join(source, 'deep/er/file'), 'content', { mode: 0o640 })
  await writeFile(join(source, `${'n'.repeat(120)}-ü`), '')
  await writeFile(join(source, 'big'), Buffer.alloc(1_000_001, 7))
  await symlink('deep', join(source, 'link'))
  execFileSync('mkfifo', [join(source, 'fifo')])
  const skipped: string[] = []
  const packed = Buffer.concat(await allOf(pack(source, path => skipped.push(path))))
  expect(skipped).toEqual([`pipe ${join(source, 'fifo')}`])
  const byTar = join(root, 'by-tar')
  await mkdir(byTar)
  execFileSync('tar', ['-x', '-C', byTar], { input: packed })
  execFileSync('rm', [join(source, 'fifo')])
  execFileSync('diff', ['-r', '--no-dereference', source, byTar])
  for (const format of ['gnu', 'pax', 'ustar', 'v7']) {
    const made = execFileSync(
      'tar',
      ['-c', `--format=${format}`, '-C', source, ...(format === 'gnu' || format === 'pax' ? ['.'] : ['deep', 'big', 'link'])],
      { maxBuffer: 1e8 },
    )
    const here = join(root, format)
    await mkdir(here)
    await unpack(inPieces(made, 65_537), here)
    expect(await readFile(join(here, 'deep/er/file'), 'utf8')).toBe('content')
    if (format === 'gnu' || format === 'pax') execFileSync('diff', ['-r', '--no-dereference', source, here])
  }
})

test('a file that the disk cannot hold is refused before its first byte', async () => {
  const bomb = archive({ name: 'small', content: 'x' }, { name: 'bomb', size: 15 * 2 ** 40 })
  await expect(unpack(bomb, target)).rejects.toMatchObject({ code: 'TARGET_FULL', detail: { path: 'bomb' } })
  expect(await readdir(target)).toEqual(['small'])
})

test('a file that breaks off is not left half written', async () => {
  const whole = Buffer.concat(await allOf(archive({ name: 'file', content: 'x'.repeat(5000) })))
  await expect(unpack(inPieces(whole.subarray(0, 1500)), target)).rejects.toThrow('ends too early')
  expect(await readdir(target)).toEqual([])
})

test('the umask holds for what is unpacked', async () => {
  const umask = process.umask(0o077)
  onTestFinished(() => void process.umask(umask))
  await unpack(
    archive({ name: 'open', type: 'directory', mode: 0o777 }, { name: 'open/file', content: 'x', mode: 0o666 }),
    target,
  )
  expect(((await lstat(join(target, 'open'))).mode & 0o777).toString(8)).toBe('700')
  expect(((await lstat(join(target, 'open/file'))).mode & 0o777).toString(8)).toBe('600')
})
