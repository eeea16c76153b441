import { execFileSync } from 'node:child_process'
import { lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { pack } from './pack.ts'
import { relayTar } from './read-tar.ts'
import { unpack } from './unpack.ts'

let root: string
let target: string

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'unpack-'))
  target = join(root, 'target')
  await mkdir(target)
  onTestFinished(() => rm(root, { recursive: true, force: true }))
})

type Raw = {
  name: string
  /** One character, as in the header: 0 is a file, 2 a symbolic link, 5 a folder. */
  typeFlag?: string
  content?: string
  size?: number
  mode?: number
  target?: string
}

const BLOCK = 512

/** An archive with whatever names and types it is told to have, most of which tar-stream does not write. */
function archive(...entries: Raw[]): AsyncIterable<Uint8Array> {
  return inPieces(Buffer.concat([...entries.flatMap(blocksOf), Buffer.alloc(2 * BLOCK)]))
}

function blocksOf({
  name,
  typeFlag = '0',
  content = '',
  size = Buffer.byteLength(content),
  mode = 0o644,
  target = '',
}: Raw): Buffer[] {
  const path = Buffer.from(name)
  const pax = path.length > 100 ? blocksOf({ name: 'PaxHeader', typeFlag: 'x', content: paxRecord('path', name) }) : []
  const header = Buffer.alloc(BLOCK)
  const octal = (at: number, width: number, value: number) =>
    header.write(`${value.toString(8).padStart(width - 1, '0')}\0`, at, 'latin1')
  path.copy(header, 0, 0, 100)
  octal(100, 8, mode)
  if (size <= 0o77777777777) octal(124, 12, size)
  else header.writeBigUInt64BE(BigInt(size), header.writeUInt32BE(0x80000000, 124))
  octal(136, 12, 1_700_000_000)
  header.write(typeFlag, 156)
  header.write(target, 157)
  header.write('ustar\x0000', 257, 'latin1')
  octal(148, 7, checksumOf(header))
  const body = Buffer.from(content)
  return [...pax, header, body, Buffer.alloc((BLOCK - (body.length % BLOCK)) % BLOCK)]
}

/** Sum of the header's bytes with its own field taken as spaces. */
const checksumOf = (header: Buffer) => header.reduce((sum, byte, i) => sum + (i >= 148 && i < 156 ? 0x20 : byte), 0)

/** `LENGTH key=value\n`, where the length counts its own digits. */
function paxRecord(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`
  const length = [1, 2, 3, 4].map(digits => digits + Buffer.byteLength(rest)).find((total, i) => String(total).length === i + 1)
  return `${length}${rest}`
}

async function allOf(source: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const pieces: Uint8Array[] = []
  for await (const piece of source) pieces.push(piece)
  return pieces
}

async function* inPieces(bytes: Buffer, size = 700) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

const link = (name: string, to: string): Raw => ({ name, typeFlag: '2', target: to })

test('files, folders and links are unpacked with their modes, without set-id bits', async () => {
  const long = `${'d'.repeat(90)}/${'f'.repeat(90)}`
  const count = await unpack(
    archive(
      { name: 'bin', typeFlag: '5', mode: 0o755 },
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
  ['a hard link to something', [{ name: 'h', target: 'passwd', typeFlag: '1' }]],
  ['its name is absolute', [{ name: 'h', target: '/etc/passwd', typeFlag: '1' }]],
])('an entry is refused: %s', async (reason, entries) => {
  await expect(unpack(archive({ name: 'a/keep', content: '' }, ...entries), target)).rejects.toMatchObject({
    code: 'ARCHIVE_UNSAFE',
    message: expect.stringContaining(reason),
  })
  expect(await readdir(root)).toEqual(['target'])
})

test('nothing is written through a link of the archive or an existing link', async () => {
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

test('an existing file with other hard links is replaced, not overwritten', async () => {
  const precious = join(root, 'precious')
  await writeFile(precious, 'precious')
  execFileSync('ln', [precious, join(target, 'file')])
  await unpack(archive({ name: 'file', content: 'new' }), target)
  expect(await readFile(precious, 'utf8')).toBe('precious')
})

test('hard links to files of the archive are created', async () => {
  await unpack(archive({ name: 'a', content: 'same' }, { name: 'b', target: 'a', typeFlag: '1' }), target)
  expect(await readFile(join(target, 'b'), 'utf8')).toBe('same')
})

test('entries that the runner left out or could not read are reported', async () => {
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

test('with onSkip, refused entries are left out and the others are unpacked', async () => {
  const refused: string[] = []
  await unpack(
    archive({ name: '../evil', content: 'x'.repeat(2000) }, link('l', '/etc'), { name: 'good', content: 'y' }),
    target,
    { onSkip: error => refused.push(error.message) },
  )
  expect(refused).toHaveLength(2)
  expect(await readdir(target)).toEqual(['good'])
})

test('a truncated or damaged archive is an error', async () => {
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

test('an archive that is cut between two entries is an error, also after a file that ends in zeros', async () => {
  const [first, second] = [
    { name: 'first', content: 'x' },
    { name: 'zeros', content: '\0'.repeat(1024) },
  ]
  for (const entries of [[first], [first, second]]) {
    const cut = Buffer.concat(entries.flatMap(blocksOf))
    await expect(unpack(inPieces(cut), target)).rejects.toThrow('ends too early')
  }
})

test('an archive without entries is empty', async () => {
  expect(await unpack(archive(), target)).toBe(0)
})

test('a sparse file and a name that is not UTF-8 are refused, and a sparse file can be left out', async () => {
  const sparse: Raw[] = [
    { name: 'PaxHeader', typeFlag: 'x', content: paxRecord('GNU.sparse.major', '1') },
    { name: 'sparse', content: 'map' },
  ]
  const [header = Buffer.alloc(0)] = blocksOf({ name: 'caf?' })
  header[3] = 0xe9
  header.write(`${checksumOf(header).toString(8).padStart(6, '0')}\0`, 148)
  const latin1 = Buffer.concat([header, Buffer.alloc(2 * BLOCK)])
  await expect(unpack(archive(...sparse), target)).rejects.toThrow('sparse')
  await expect(unpack(inPieces(latin1), target)).rejects.toThrow('is not UTF-8')
  const refused: string[] = []
  await unpack(archive(...sparse, { name: 'good', content: 'y' }), target, { onSkip: error => refused.push(error.detail.entry) })
  expect(refused).toEqual(['sparse'])
  expect(await readdir(target)).toEqual(['good'])
})

/** A pax header with a record that ends with this byte. */
function paxWith(key: string, byte: number): Buffer[] {
  const [header = Buffer.alloc(0), body = Buffer.alloc(0), padding = Buffer.alloc(0)] = blocksOf({
    name: 'PaxHeader',
    typeFlag: 'x',
    content: paxRecord(key, 'a?'),
  })
  body[body.indexOf('?')] = byte
  return [header, body, padding]
}

test.each(['path', 'linkpath'])('a pax %s that is not UTF-8 is refused, and can be left out', async key => {
  const entries = [0xff, 0xfe].flatMap(byte => [...paxWith(key, byte), ...blocksOf(link(`l${byte}`, 'x'))])
  const tar = Buffer.concat([...entries, ...blocksOf({ name: 'good' }), Buffer.alloc(2 * BLOCK)])
  await expect(unpack(inPieces(tar), target)).rejects.toMatchObject({
    code: 'ARCHIVE_UNSAFE',
    message: expect.stringContaining('is not UTF-8'),
  })
  const refused: string[] = []
  expect(await unpack(inPieces(tar), target, { onSkip: error => refused.push(error.message) })).toBe(1)
  expect(refused).toHaveLength(2)
  expect(await readdir(target)).toEqual(['good'])
})

test('a relayed archive reports omissions also after a name that is not UTF-8', async () => {
  const omission: Raw = { name: 'o', typeFlag: 'g', content: paxRecord('comment', 'unreadable: b: permission denied') }
  const blocks = [...paxWith('path', 0xff), ...blocksOf({ name: 'a' }), ...blocksOf(omission), Buffer.alloc(2 * BLOCK)]
  const [sent, unreadable]: [Uint8Array[], string[]] = [[], []]
  const send = async (piece: Uint8Array) => void sent.push(piece)
  await relayTar(inPieces(Buffer.concat(blocks)), send, { onUnreadable: what => unreadable.push(what) })
  expect(unreadable).toEqual(['b: permission denied'])
  expect(Buffer.concat(sent)).toEqual(Buffer.concat(blocks))
})

test('a byte order mark at the start of a name is part of the name', async () => {
  await unpack(archive({ name: '\ufeffa', content: 'marked' }, { name: 'a', content: 'plain' }), target)
  expect((await readdir(target)).sort()).toEqual(['a', '\ufeffa'])
})

test('GNU tar unpacks what pack wrote, and unpack reads what GNU tar wrote', async () => {
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

test('a file larger than the free space is refused before its first byte', async () => {
  const bomb = archive({ name: 'small', content: 'x' }, { name: 'bomb', size: 15 * 2 ** 40 })
  await expect(unpack(bomb, target)).rejects.toMatchObject({ code: 'TARGET_FULL', detail: { path: 'bomb' } })
  expect(await readdir(target)).toEqual(['small'])
})

test('a truncated file is removed', async () => {
  const whole = Buffer.concat(await allOf(archive({ name: 'file', content: 'x'.repeat(5000) })))
  await expect(unpack(inPieces(whole.subarray(0, 1500)), target)).rejects.toThrow('ends too early')
  expect(await readdir(target)).toEqual([])
})

test('the umask applies to unpacked entries', async () => {
  const umask = process.umask(0o077)
  onTestFinished(() => void process.umask(umask))
  await unpack(archive({ name: 'open', typeFlag: '5', mode: 0o777 }, { name: 'open/file', content: 'x', mode: 0o666 }), target)
  expect(((await lstat(join(target, 'open'))).mode & 0o777).toString(8)).toBe('700')
  expect(((await lstat(join(target, 'open/file'))).mode & 0o777).toString(8)).toBe('600')
})
