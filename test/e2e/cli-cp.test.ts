import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdir, readdir, readFile, stat, symlink, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliHome, SANDGLASS } from './cli-home.ts'
import { deadline } from './deadline.ts'
import { Tmux } from './tmux.ts'

let cli: CliHome

beforeAll(async () => {
  cli = await CliHome.open()
  expect(await cli.run(['new', 'box', '--env', 'GREETING=hello'])).toMatchObject({ code: 0 })
})
afterAll(() => cli.close())

const run = (...args: string[]) => cli.run(args)
const sh = (text: string) => cli.run(['exec', 'box', '-c', text])

test('files and folders are the same after a copy into a session and back', async () => {
  const folder = join(cli.home, 'tree')
  await mkdir(join(folder, 'sub'), { recursive: true })
  await writeFile(join(folder, 'sub/file'), 'content', { mode: 0o750 })
  await writeFile(join(folder, 'line\nbreak'), '')
  await symlink('sub/file', join(folder, 'link'))
  expect(await run('cp', folder, 'box:')).toMatchObject({ code: 0, stdout: '' })
  expect((await sh('cat /workspace/tree/link')).stdout).toBe('content')
  expect(await run('cp', 'box:tree', join(cli.home, 'back'))).toMatchObject({ code: 0 })
  expect(await readFile(join(cli.home, 'back/link'), 'utf8')).toBe('content')
  expect((await stat(join(cli.home, 'back/sub/file'))).mode & 0o777).toBe(0o750)
  expect(JSON.parse((await run('cp', '--json', 'box:tree/sub/file', join(cli.home, 'back'))).stdout)).toMatchObject({
    entries: 1,
    target: join(cli.home, 'back/file'),
  })
})

test('symbolic links are copied unchanged into a session and between sessions, wherever they point', async () => {
  const folder = join(cli.home, 'venv')
  await mkdir(join(folder, 'bin'), { recursive: true })
  await symlink('/usr/bin/python3', join(folder, 'bin/python3'))
  await symlink('../../..', join(folder, 'bin/up'))
  const show = 'readlink bin/python3 bin/up'
  expect(await run('cp', folder, 'box:')).toMatchObject({ code: 0, stderr: '' })
  expect((await sh(`cd /workspace/venv && ${show}`)).stdout).toBe('/usr/bin/python3\n../../..\n')
  expect(await run('cp', 'box:venv', 'box:/tmp/venv')).toMatchObject({ code: 0, stderr: '' })
  expect((await sh(`cd /tmp/venv && ${show}`)).stdout).toBe('/usr/bin/python3\n../../..\n')
  expect(await cli.run(['run', '--copy-in', '--', ...show.split(' ')], { cwd: folder })).toMatchObject({
    code: 0,
    stdout: '/usr/bin/python3\n../../..\n',
  })
})

test.each(['-r', '-R', '-a', '-aR'])('cp %s copies a folder as cp without the flag does', async flag => {
  const folder = join(cli.home, 'flagged')
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'file'), flag)
  expect(await run('cp', flag, folder, 'box:')).toMatchObject({ code: 0, stderr: '' })
  expect((await sh('cat /workspace/flagged/file')).stdout).toBe(flag)
})

test('- is stdin and stdout', async () => {
  const input = Buffer.alloc(5_000_000, 'xyz')
  expect(await cli.run(['cp', '-', 'box:/tmp/piped'], { input })).toMatchObject({ code: 0 })
  expect((await run('cp', 'box:/tmp/piped', '-')).stdout.length).toBe(5_000_000)
})

test('a file larger than the free space is refused, and an interrupted copy leaves nothing', async () => {
  await sh('mkdir -p /workspace/sparse && truncate -s 15T /workspace/sparse/bomb; truncate -s 2G /workspace/long')
  const target = join(cli.home, 'room')
  await mkdir(target)
  for (const path of ['box:sparse/bomb', 'box:sparse/.']) {
    expect(await run('cp', path, target)).toMatchObject({ code: 3, stderr: expect.stringContaining('not enough space for') })
  }
  expect(await readdir(target)).toEqual([])
  const given = spawn(SANDGLASS, ['cp', 'box:long', target], { env: cli.env })
  const ended = once(given, 'exit')
  await deadline('the copy has begun', async () => (await readdir(target)).some(name => name.endsWith('.part')))
  given.kill('SIGINT')
  expect(await ended).toEqual([null, 'SIGINT'])
  expect(await readdir(target)).toEqual([])
})

test.each([
  ['a file', 'short:tree/long'],
  ['a folder', 'short:tree'],
])('a copy of %s fails with the reason when the session is stopped, and leaves no partial copy', async (_, source) => {
  const target = join(cli.home, 'cut')
  await mkdir(target, { recursive: true })
  await run('new', 'short')
  await cli.run(['exec', 'short', '-c', 'mkdir tree && truncate -s 8G tree/long'])
  const copy = run('cp', source, `${target}/`)
  const copied = async () => (await readdir(target, { recursive: true })).filter(path => path.includes('long'))
  await deadline('the copy has begun', async () => (await copied()).length > 0)
  await run('stop', 'short')
  expect(await copy).toMatchObject({
    code: 3,
    stderr: expect.stringContaining(
      'sandglass: the sandbox of session short ended while the command ran: it is stopped (requested)\n' +
        '  next: `sandglass start short` starts it again',
    ),
  })
  expect(await copied()).toEqual([])
  expect(await run('rm', '--force', 'short')).toMatchObject({ code: 0 })
})

test('sockets and pipes are left out and named in both directions, without an error', async () => {
  const make = 'import os, socket; os.mkfifo("fifo"); s = socket.socket(socket.AF_UNIX); s.bind("in/sock")'
  await sh(`mkdir -p /workspace/odd/in && cd /workspace/odd && echo x > file && python3 -c '${make}'`)
  const target = join(cli.home, 'odd')
  const out = await run('cp', 'box:odd', target)
  expect(out).toMatchObject({ code: 0, stdout: '' })
  expect(out.stderr.trim().split('\n').sort()).toEqual(['left out pipe fifo', 'left out socket in/sock'])
  expect((await readdir(target)).sort()).toEqual(['file', 'in'])
  const json = JSON.parse((await run('cp', '--json', 'box:odd/.', join(cli.home, 'odd-json'))).stdout)
  expect(json.left_out.sort()).toEqual(['pipe fifo', 'socket in/sock'])
  const tar = await run('cp', 'box:odd', '-')
  expect(tar.stderr.trim().split('\n').sort()).toEqual(['left out pipe fifo', 'left out socket in/sock'])
  expect(execFileSync('tar', ['tf', '-'], { input: tar.stdout, stdio: ['pipe', 'pipe', 'inherit'] }).toString()).toContain(
    'file\n',
  )
  execFileSync('mkfifo', [join(target, 'again')])
  expect(await run('cp', target, 'box:odd-back')).toMatchObject({
    code: 0,
    stderr: `left out pipe ${join(target, 'again')}\n`,
  })
})

test('on a terminal a copy that takes longer than a second shows its progress, and erases it at the end', async () => {
  using screen = new Tmux(cli.env, { cols: 100, rows: 20 })
  execFileSync('mkfifo', [join(cli.home, 'slow')])
  screen.line(`${SANDGLASS} cp - box:/tmp/slow < ${cli.home}/slow; echo done`)
  const slow = createWriteStream(join(cli.home, 'slow'))
  const feed = setInterval(() => slow.write(Buffer.alloc(100_000)), 100)
  try {
    await screen.shows(/stdin {2}[0-9.]+ [KM]iB {2}[0-9.]+ [KM]iB\/s/)
  } finally {
    clearInterval(feed)
    slow.end()
  }
  await screen.shows(/^done/m)
  expect(screen.screen()).not.toContain('iB/s')
})

test('the error for a missing file says on which side it is missing', async () => {
  expect(await run('cp', 'box:nofile', cli.home)).toMatchObject({
    code: 4,
    stderr: 'sandglass: no such file or directory in session box: nofile\n',
  })
  expect(await run('cp', join(cli.home, 'nofile'), 'box:')).toMatchObject({
    code: 4,
    stderr: `sandglass: no such file or directory on this machine: ${join(cli.home, 'nofile')}\n`,
  })
  expect(await run('cp', 'box:odd/file', join(cli.home, 'no/such/folder'))).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('on this machine'),
  })
})

test('an unreadable entry is named, the others are copied, and the exit code is 3', async () => {
  await sh('cd /workspace && mkdir -p part/in && echo fine > part/fine && echo no > part/in/secret && chmod 0 part/in/secret')
  const target = join(cli.home, 'part')
  expect(await run('cp', 'box:part', target)).toMatchObject({
    code: 3,
    stdout: '',
    stderr:
      'cannot read part/in/secret: permission denied\n' +
      'sandglass: one entry could not be read and was not copied\n' +
      '  next: the rest was copied; `sandglass cp --user root` reads everything in a session\n',
  })
  expect((await readdir(target, { recursive: true })).sort()).toEqual(['fine', 'in'])
  const json = await run('cp', '--json', 'box:part/.', target)
  expect(json).toMatchObject({ code: 3 })
  expect(JSON.parse(json.stdout)).toMatchObject({ entries: 2, unreadable: ['part/in/secret: permission denied'] })
  expect(await run('cp', 'box:part', 'box:part-again')).toMatchObject({ code: 3 })
  expect((await sh('ls -1 /workspace/part-again')).stdout).toBe('fine\nin\n')
  expect(await run('cp', '--user', 'root', 'box:part', join(cli.home, 'part-root'))).toMatchObject({ code: 0, stderr: '' })
  expect(await readFile(join(cli.home, 'part-root/in/secret'), 'utf8')).toBe('no\n')
})

test('3,000 nested folders are copied out of a session and back', { timeout: 120_000 }, async () => {
  const deepen = 'import os\nfor _ in range(3000): os.mkdir("d"); os.chdir("d")\nopen("file", "w").write("deep")'
  const depth = 'import os\nn = 0\nwhile os.path.isdir("d"): os.chdir("d"); n += 1\nprint(n, open("file").read())'
  await sh(`mkdir /workspace/deep && cd /workspace/deep && python3 -c '${deepen}'`)
  const target = join(cli.home, 'deep')
  expect(await run('cp', 'box:deep', target)).toMatchObject({ code: 0, stderr: '' })
  expect(execFileSync('python3', ['-c', depth], { cwd: target, encoding: 'utf8' })).toBe('3000 deep\n')
  expect(await run('cp', target, 'box:deep-again')).toMatchObject({ code: 0, stderr: '' })
  expect((await sh(`cd /workspace/deep-again && python3 -c '${depth}'`)).stdout).toBe('3000 deep\n')
  execFileSync('rm', ['-r', target])
  await sh('cd /workspace && rm -r deep deep-again')
})

test('a failed copy leaves nothing that changes the next copy', async () => {
  await sh('mkdir -p /workspace/bad && cd /workspace/bad && echo fine > fine && ln -s /etc/passwd abs; mkdir -p /tmp/none')
  const target = join(cli.home, 'made/for/it')
  for (let attempt = 0; attempt < 2; attempt++) {
    expect(await run('cp', 'box:bad', target)).toMatchObject({ code: 2 })
    await expect(stat(join(cli.home, 'made'))).rejects.toMatchObject({ code: 'ENOENT' })
  }
  const folder = join(cli.home, 'bad')
  await mkdir(folder)
  await writeFile(join(folder, 'fine'), 'fine')
  await writeFile(join(folder, 'huge'), '')
  await truncate(join(folder, 'huge'), 2 ** 42)
  expect(await run('cp', folder, 'box:/tmp/none/x/y')).toMatchObject({ code: 3 })
  expect((await sh('ls -A /tmp/none')).stdout).toBe('')
})

test('root can copy all files of the sandbox except kernel files, and the user sandbox cannot', async () => {
  const refused = await run('cp', 'box:/etc/hostname', cli.home)
  expect(refused).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('path is not accessible through the file API: /etc/hostname\n'),
  })
  expect(refused.stderr).toContain('--user root')
  const kernels = await run('cp', '--user', 'root', 'box:/proc/version', cli.home)
  expect(kernels).toMatchObject({ code: 2, stderr: expect.stringContaining('does not reach /proc and /sys') })
  expect(kernels.stderr).not.toContain('--user root')
  expect(await run('cp', '--user', 'nobody', 'box:/etc/hostname', cli.home)).toMatchObject({ code: 2 })
})

test('the error of a refused copy names the remedy: a writable root filesystem, or more memory for a full /tmp', async () => {
  const file = join(cli.home, 'to-etc')
  await writeFile(file, 'x')
  expect(await run('cp', '--user', 'root', file, 'box:/etc/')).toMatchObject({
    code: 3,
    stderr:
      'sandglass: read-only filesystem: /etc/to-etc\n' +
      '  next: the root filesystem of a session is read-only; `sandglass new --no-readonly-rootfs` (API: `readonly_rootfs`) makes one that root can write to\n',
  })
  const folder = join(cli.home, 'too-much')
  await mkdir(folder)
  await writeFile(join(folder, 'huge'), '')
  await truncate(join(folder, 'huge'), 2 ** 42)
  const full = (target: string) => run('cp', folder, target).then(({ stderr }) => stderr)
  expect(await full('box:/tmp/much')).toContain('a larger memory_mb')
  expect(await full('box:much')).toContain('a larger disk_mb')
})

test('several sources are copied into an existing folder, from this machine, from sessions and between them', async () => {
  expect(await run('new', 'other')).toMatchObject({ code: 0 })
  for (const name of ['one', 'two']) await writeFile(join(cli.home, name), name)
  await mkdir(join(cli.home, 'three/in'), { recursive: true })
  await writeFile(join(cli.home, 'three/in/file'), 'three')
  const sources = ['one', 'two', 'three'].map(name => join(cli.home, name))
  await sh('mkdir -p /workspace/many')
  expect(await run('cp', ...sources, 'box:many')).toMatchObject({ code: 0, stderr: '' })
  expect((await sh('cd /workspace/many && cat one two three/in/file')).stdout).toBe('onetwothree')
  expect(await run('cp', 'box:many/one', 'box:many/three', 'other:')).toMatchObject({ code: 0, stderr: '' })
  expect((await cli.run(['exec', 'other', '-c', 'cat one three/in/file'])).stdout).toBe('onethree')
  const back = join(cli.home, 'many')
  await mkdir(back)
  expect(await run('cp', 'box:many/two', 'other:three', 'other:one', back)).toMatchObject({ code: 0 })
  expect((await readdir(back)).sort()).toEqual(['one', 'three', 'two'])
  // A failed source does not stop the others.
  expect(await run('cp', 'box:nofile', 'box:many/one', 'other:/tmp')).toMatchObject({ code: 4 })
  expect((await cli.run(['exec', 'other', '-c', 'cat /tmp/one'])).stdout).toBe('one')
  for (const [refused, why] of [
    [['box:many/one', 'box:many/two', join(cli.home, 'nofolder')], 'with several sources the target must be an existing folder'],
    [['box:many/one', 'box:many/two', 'other:one'], 'with several sources the target must be an existing folder'],
    [['box:many/one', 'other:one', back], 'two sources are called one'],
    [['-', 'box:many/one', 'other:'], 'cannot be combined with other sources'],
    [['box:many', 'box:many/three/in'], 'cannot be copied into itself'],
    [['box:', 'box:new'], 'cannot be copied into itself'],
  ] as const)
    expect(await run('cp', ...refused)).toMatchObject({ code: 2, stderr: expect.stringContaining(why) })
  expect(await run('rm', '--force', 'other')).toMatchObject({ code: 0 })
})

test('hostile entries of a sandbox are refused, and nothing is written outside the target', async () => {
  await sh('mkdir -p /workspace/evil/in && ln -s /etc/passwd /workspace/evil/in/abs && echo fine > /workspace/evil/fine')
  const refused = await run('cp', 'box:evil', join(cli.home, 'evil'))
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('archive refused') })
  const skipped = await run('cp', '--skip-unsafe', 'box:evil', join(cli.home, 'evil2'))
  expect(skipped).toMatchObject({ code: 0, stderr: expect.stringContaining('left out') })
  expect(await readFile(join(cli.home, 'evil2/fine'), 'utf8')).toBe('fine\n')
  expect(await run('cp', 'box:/etc/shadow', cli.home)).toMatchObject({ code: 2 })
  expect(await run('cp', 'box:no-such-file', cli.home)).toMatchObject({ code: 4 })
  expect(await run('cp', 'a', 'b')).toMatchObject({ code: 2 })
})
