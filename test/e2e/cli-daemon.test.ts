import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliHome, isAlive, SANDGLASS } from './cli-home.ts'
import { deadline } from './deadline.ts'

let cli: CliHome

beforeAll(async () => {
  cli = await CliHome.open()
})
afterAll(() => cli.close())

const run = (...args: string[]) => cli.run(args)

test('two commands at once start one daemon, with a key in a private file and no TCP port', async () => {
  const runs = await Promise.all([run('ls'), run('ls'), run('ls', '--json')])
  expect(runs.map(r => r.code)).toEqual([0, 0, 0])
  expect(JSON.parse(runs[2]?.stdout ?? '')).toEqual([])
  expect(runs[0]?.stderr).toContain('`sandglass new` creates one')
  expect(runs[0]?.stdout).toBe('')
  expect(((await stat(join(cli.dataDir, 'api-key'))).mode & 0o777).toString(8)).toBe('600')
  const log = await readFile(join(cli.dataDir, 'daemon.log'), 'utf8')
  expect(log.match(/"msg":"listening"/g)).toHaveLength(1)
  expect(log).not.toContain('127.0.0.1')
  const key = (await readFile(join(cli.dataDir, 'api-key'), 'utf8')).trim()
  const argvAndEnv = await Promise.all(['cmdline', 'environ'].map(file => readFile(`/proc/${cli.daemonPid}/${file}`, 'utf8')))
  expect(argvAndEnv.join()).not.toContain(key)
})

test('a daemon that cannot start reports the reason', async () => {
  const home = await mkdtemp(join(cli.home, 'broken-'))
  const file = join(home, 'config.yaml')
  await writeFile(file, 'no_such_key: 1\n', { mode: 0o600 })
  const broken = await cli.run(['--config', file, 'ls'], { env: { HOME: home } })
  expect(broken).toMatchObject({ code: 2, stdout: '' })
  expect(broken.stderr).toMatch(
    /^(sandglass: starting the daemon…\n)?sandglass: \S+config\.yaml: unknown key no_such_key.*\n {2}next: edit \S+config\.yaml; docs\/reference\/configuration\.md lists the keys\n$/,
  )
  await writeFile(join(home, 'file'), '')
  await writeFile(file, `store: ${join(home, 'file/store.db')}\n`)
  const stuck = await cli.run(['--config', file, 'ls'], { env: { HOME: home } })
  expect(stuck).toMatchObject({ code: 3, stdout: '', stderr: expect.stringContaining('the daemon did not start: ') })
  expect(stuck.stderr).not.toContain('`sandglass serve` starts one')
  await chmod(file, 0o644)
  expect(await cli.run(['--config', file, 'ls'], { env: { HOME: home } })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('has mode 644'),
  })
})

test('a wrong key is refused', async () => {
  expect(await cli.run(['ls'], { env: { SANDGLASS_API_KEY: 'wrong-key-00000000' } })).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('wrong API key'),
  })
})

test('a killed daemon is started again and finds its sessions', async () => {
  await run('new', 'box', '--env', 'GREETING=hello')
  const before = cli.daemonPid
  process.kill(before, 'SIGKILL')
  await deadline('the daemon is gone', () => !isAlive(before))
  expect(await run('exec', 'box', '-c', 'echo $GREETING')).toMatchObject({ code: 0, stdout: 'hello\n' })
  expect(cli.daemonPid).not.toBe(before)
})

test('compiled code is cached only in a home folder that belongs to the user', async () => {
  const home = async (name: string) => {
    const HOME = join(cli.home, name)
    await mkdir(HOME)
    return { HOME, kept: join(HOME, '.cache/sandglass/compiled'), env: { HOME, NODE_COMPILE_CACHE: '' } }
  }
  const own = await home('own')
  expect(await cli.run(['version'], { env: own.env })).toMatchObject({ code: 0, stderr: '' })
  expect(existsSync(own.kept)).toBe(true)
  if (process.getuid?.() !== 0) return // only root can give a folder away
  const foreign = await home('foreign')
  await chown(foreign.HOME, 65534, 65534)
  expect(await cli.run(['version'], { env: foreign.env })).toMatchObject({ code: 0, stderr: '' })
  expect(existsSync(foreign.kept)).toBe(false)
})

test('the script works through a link from another folder, and an old Node is refused with a message', async () => {
  const link = join(cli.home, 'sg')
  await symlink(SANDGLASS, link)
  expect(execFileSync(link, ['version'], { cwd: '/', env: cli.env }).toString()).toMatch(/^sandglass \d+\.\d+\.\d+\n$/)
  const entry = join(SANDGLASS, '../packages/cli/bin/sandglass.mjs')
  const old = spawnSync(
    'node',
    ['-e', `Object.defineProperty(process.versions,'node',{value:'20.1.0'}); import(${JSON.stringify(entry)})`],
    { env: cli.env },
  )
  expect(old).toMatchObject({ status: 2, stderr: expect.objectContaining({}) })
  expect(old.stderr.toString()).toContain('needs Node 24')
})
