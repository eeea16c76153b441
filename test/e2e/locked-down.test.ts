// A default Docker container, as an ordinary user: no namespace can be made, no engine is there, and there is no privilege. The quickstart still
// ends with a sandbox, which is a virtual machine under emulation.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { IMAGE, makeRoot } from '../../bench/support/docker-root.ts'

const USER = 1000
/** Enough of /usr for QEMU, Node, Python and a shell: a container of a usual size, so that its copy is made in seconds. */
const KEPT_IN_LIB = /-linux-gnu|^python3|^qemu|^ssl$/
const LEFT_OUT = ['share/doc', 'share/locale', 'share/man', 'share/fonts', 'share/icons', 'include', 'src', 'local', 'libexec']

function leftOut(): string[] {
  const folders = readdirSync('/usr/lib', { withFileTypes: true }).filter(
    entry => entry.isDirectory() && !KEPT_IN_LIB.test(entry.name),
  )
  return [...LEFT_OUT, ...folders.map(({ name }) => `lib/${name}`)].map(name => `/usr/${name}`).filter(path => existsSync(path))
}

let engine: ChildProcess
let socket: string
let folder: string

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sandglass-locked-'))
  engine = spawn(process.execPath, [resolve('tools/docker-engine.ts')], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [line] = await once(engine.stdout ?? engine, 'data')
  socket = JSON.parse(String(line)).socket
}, 120_000)

afterAll(async () => {
  engine?.stdin?.end()
  if (engine?.exitCode === null) await once(engine, 'exit')
  rmSync(folder, { recursive: true, force: true })
})

test('npm run quickstart ends well for an ordinary user in a default Docker container', { timeout: 420_000 }, async () => {
  const root = join(folder, 'root')
  mkdirSync(root)
  const binds = await makeRoot(root)
  for (const name of ['tmp', 'home/sandbox']) chmodSync(join(root, name), 0o1777)
  execFileSync('tar', ['--create', '--owner', '0', '--group', '0', '--file', join(folder, 'root.tar'), '--directory', root, '.'])
  docker('import', join(folder, 'root.tar'), IMAGE)
  const clone = copyOfTheClone()
  const hidden = leftOut().flatMap(path => ['--tmpfs', path])
  const flags = ['--network', 'none', '--user', `${USER}:${USER}`, '--env', 'HOME=/home/sandbox', '--workdir', '/clone']
  const volumes = [...binds, `${clone}:/clone`, `${resolve('node_modules')}:/clone/node_modules:ro`].flatMap(bind => [
    '--volume',
    bind,
  ])
  const output = docker('run', '--rm', ...flags, ...volumes, ...hidden, IMAGE, 'tools/dev', 'quickstart')
  expect(output).toContain('note:')
  expect(output).toContain('hello from /tmp')
  expect(output).toContain('2 3 5 7 11 13')
  expect(output).toMatch(/Next:/)
})

const docker = (...args: string[]) =>
  execFileSync('docker', ['--host', `unix://${socket}`, ...args], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
    stdio: ['ignore', 'pipe', 'inherit'],
  })

/** What is in the repository, with the runner and the kernel that were made for it, as files of the ordinary user. */
function copyOfTheClone(): string {
  const clone = join(folder, 'clone')
  const files = execFileSync('git', ['ls-files', '-z'], { encoding: 'utf8', maxBuffer: 1 << 26 })
    .split('\0')
    .filter(Boolean)
  for (const file of files) {
    mkdirSync(join(clone, dirname(file)), { recursive: true })
    cpSync(file, join(clone, file))
  }
  cpSync('runner/bin', join(clone, 'runner/bin'), { recursive: true })
  mkdirSync(join(clone, 'node_modules'), { recursive: true })
  execFileSync('chown', ['-R', `${USER}:${USER}`, clone])
  return clone
}
