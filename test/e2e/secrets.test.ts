// Secrets from the command line and on the disk of a real daemon with real sandboxes.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliHome, SANDGLASS, WITHOUT_KVM } from './cli-home.ts'
import { deadline } from './deadline.ts'
import { Tmux } from './tmux.ts'

const HIDDEN = 'hidden-7c1e55'
let cli: CliHome

beforeAll(async () => {
  cli = await CliHome.open()
})
afterAll(() => cli.close())

const run = (...args: string[]) => cli.run(args)
const names = async () => (JSON.parse((await run('secret', 'ls', '--json')).stdout) as { name: string }[]).map(s => s.name)
const configFile = () => join(cli.home, '.sandglass/config.yaml')

/** True when a file of the home, a disk, a log or the database has these bytes. Holes of disks are passed over. */
function isOnDisk(text: string): boolean {
  const { status } = spawnSync('sh', ['-c', 'tar -S -cf - "$1" 2>/dev/null | grep -aqF "$2"', 'sh', cli.home, text])
  if (status !== 0 && status !== 1) throw new Error(`grep ended with ${status}`)
  return status === 0
}

/** Command lines of all processes of this machine. */
const commandLines = () =>
  readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(pid => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      } catch {
        return '' // it has ended
      }
    })
    .join('\n')

test('keys in the file are moved by init, which starts a daemon for that, and everything else in the file stays', async () => {
  await mkdir(join(cli.home, '.sandglass'), { mode: 0o700 })
  const text = `# mine\nlog_level: warn # less\n# keys\nagent_api_keys:\n  claude: ${HIDDEN}-claude # work\n  codex: "${HIDDEN}-codex"\n# image\ndefault_image: host\nsprites_token: ${HIDDEN}-sprites\n`
  await writeFile(configFile(), text, { mode: 0o600 })
  expect(isOnDisk(HIDDEN)).toBe(true)
  expect((await cli.run(['doctor'], { env: WITHOUT_KVM })).stdout).toContain(
    'agent_api_keys.claude, agent_api_keys.codex, sprites_token: in plain text',
  )
  const moved = await run('init', '--default-image', 'host')
  expect(moved).toMatchObject({ code: 0, stdout: '' })
  expect(moved.stderr).toContain('moved agent_api_keys.claude into the secret store, as agent.claude\n')
  expect(await readFile(configFile(), 'utf8')).toBe('# mine\nlog_level: warn # less\n# keys\n# image\ndefault_image: host\n')
  expect((await stat(configFile())).mode & 0o777).toBe(0o600)
  expect(await names()).toEqual(['agent.claude', 'agent.codex', 'sprites_token'])
  const stored = JSON.parse((await cli.run(['secret', 'ls', '--json'])).stdout)
  expect(stored.slice(0, 2)).toMatchObject([{ scopes: ['api.anthropic.com'] }, { scopes: ['api.openai.com'] }])
  expect(isOnDisk(HIDDEN)).toBe(false)
  expect((await cli.run(['doctor'], { env: WITHOUT_KVM })).stdout).not.toContain('in plain text')
  expect(moved.stderr).not.toContain(HIDDEN)
})

test('keys stay in the file when the daemon does not take them', async () => {
  const file = join(cli.home, 'broken.yaml')
  const text = `sprites_token: ${HIDDEN}-kept\nno_such_key: 1\ndata_dir: ${join(cli.home, 'elsewhere')}\n`
  await writeFile(file, text, { mode: 0o600 })
  const failed = await run('init', '--config', file, '--default-image', 'host')
  expect(failed).toMatchObject({ code: 2, stderr: expect.stringContaining('no_such_key') })
  expect(await readFile(file, 'utf8')).toBe(`${text}default_image: host\n`)
  expect(failed.stderr).not.toContain(HIDDEN)
  await writeFile(file, '')
})

test('keys in the file are not sent to a remote daemon', async () => {
  const file = join(cli.home, 'remote.yaml')
  await writeFile(file, `sprites_token: ${HIDDEN}\n`, { mode: 0o600 })
  const remote = await cli.run(['init', '--config', file, '--default-image', 'host'], {
    env: { SANDGLASS_URL: 'http://127.0.0.1:1' },
  })
  expect(remote).toMatchObject({ code: 2, stderr: expect.stringContaining('SANDGLASS_URL') })
  expect(await readFile(file, 'utf8')).toContain(HIDDEN)
  await writeFile(file, '')
})

test('a secret is set from stdin, listed by name, and removed', async () => {
  expect(await cli.run(['secret', 'set', 'mine'], { input: `${HIDDEN}\n` })).toMatchObject({
    code: 0,
    stdout: '',
    stderr: expect.stringMatching(/^stored mine$/m),
  })
  const listed = await run('secret', 'ls')
  expect(listed.stdout).toMatch(/^NAME +KIND +VARIABLE +SCOPES +UPDATED\n/)
  expect(listed.stdout).toMatch(/^mine +masked +- +- +\S+ ago$/m)
  expect(listed.stdout + listed.stderr).not.toContain(HIDDEN)
  expect(await run('secret', 'rm', 'mine')).toMatchObject({ code: 2, stderr: expect.stringContaining('pass -f') })
  expect(await run('secret', 'rm', '-f', 'nobody', 'mine')).toMatchObject({ code: 0, stdout: 'mine\n' })
  expect(await names()).not.toContain('mine')
})

test('a value in the wrong place is refused without being repeated', async () => {
  for (const args of [
    ['set', 'name', HIDDEN],
    ['set', `name=${HIDDEN}`],
    ['set', 'name', `--value=${HIDDEN}`],
    ['set', 'name', '--', HIDDEN],
    [HIDDEN],
    ['rm', '-f', `a=${HIDDEN}`],
  ]) {
    const refused = await run('secret', ...args)
    expect(refused).toMatchObject({ code: 2, stdout: '' })
    expect(refused.stderr).not.toContain(HIDDEN)
  }
  for (const input of ['', '\n', Buffer.from([0xff]), Buffer.alloc(70_000, 'x')])
    expect(await cli.run(['secret', 'set', 'name'], { input })).toMatchObject({ code: 2, stdout: '' })
  expect(await names()).not.toContain('name')
})

test('a value that is typed is not shown, and no process has it in its command line', async () => {
  using tmux = new Tmux({ ...cli.env, SG: SANDGLASS }, { cols: 100, rows: 30 })
  tmux.line('"$SG" secret set typed')
  await tmux.shows(/^Value of typed:$/m)
  tmux.line(HIDDEN)
  await tmux.shows(/^stored typed$/m)
  expect(tmux.screen()).not.toContain(HIDDEN)
  tmux.line('"$SG" secret rm typed')
  await tmux.shows(/Remove the secret typed\? \[y\/N\]$/m)
  tmux.line('y')
  await tmux.shows(/^typed$/m)
  const piped = spawn(SANDGLASS, ['secret', 'set', 'piped'], { env: cli.env, stdio: ['pipe', 'ignore', 'ignore'] })
  piped.stdin.write(HIDDEN)
  await deadline('the command waits for more', () => commandLines().includes('secret\0set\0piped'))
  expect(commandLines()).not.toContain(HIDDEN)
  const ended = once(piped, 'exit')
  piped.stdin.end()
  expect(await ended).toEqual([0, null])
})

test('the environment of a session is in no file of the host, and still there after stop, restart and start', async () => {
  expect(await cli.run(['new', 'box', '--env', `TOKEN=${HIDDEN}-env`])).toMatchObject({ code: 0 })
  expect((await run('exec', 'box', '-c', 'echo "$TOKEN"')).stdout).toBe(`${HIDDEN}-env\n`)
  expect(isOnDisk(`${HIDDEN}-env`)).toBe(false)
  await run('stop', 'box')
  expect(await run('shutdown')).toMatchObject({ code: 0 })
  expect(isOnDisk(`${HIDDEN}-env`)).toBe(false)
  expect(await run('start', 'box')).toMatchObject({ code: 0 })
  expect((await run('exec', 'box', '-c', 'echo "$TOKEN"')).stdout).toBe(`${HIDDEN}-env\n`)
  expect((await run('inspect', 'box', '--json')).stdout).not.toContain(HIDDEN)
  expect(JSON.parse((await run('inspect', 'box', '--json', '--reveal-env')).stdout)).toMatchObject({
    env: { TOKEN: `${HIDDEN}-env` },
  })
})
