// Ours: a daemon on a temporary data folder, reached over HTTP on loopback with the SDK, as an application reaches it.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { access, mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SandboxClient } from '@sandglass/sdk'
import { nodeFetch } from '@sandglass/sdk/node'
import { freePort } from './free-port.ts'
import { until } from './until.ts'

/** The first start may build the runner. */
const START_DEADLINE_MS = 60_000
const RUNTIMES = ['crun', 'runc']
const CONFIG_FILE = 'config.yaml'

export interface Sandglass extends AsyncDisposable {
  readonly client: SandboxClient
  /** The daemon's process. */
  readonly pid: number
  readonly dataDir: string
  readonly configFile: string
  /** The first process of a session's machine, as its folder names it. */
  machinePid(sessionId: string): Promise<number>
}

/** `config` is what else the daemon's configuration has. */
export async function startSandglass(options: { runtime?: string; config?: object }, signal: AbortSignal): Promise<Sandglass> {
  const folder = await mkdtemp(join(tmpdir(), 'sg-ours-'))
  const address = `127.0.0.1:${await freePort()}`
  const apiKey = randomBytes(24).toString('hex')
  const child = await launch(folder, {
    listen: [address],
    api_key: apiKey,
    data_dir: join(folder, 'data'),
    log_level: 'warn',
    backends: { oci: { runtime: options.runtime ?? 'auto' } },
    ...options.config,
  })
  const client = new SandboxClient({ baseUrl: `http://${address}`, apiKey, fetch: nodeFetch() })
  try {
    await until('the daemon is ready', START_DEADLINE_MS, signal, async () => {
      if (child.exitCode !== null) throw new Error(`the daemon exited with ${child.exitCode}`)
      return isReady(address)
    })
    return {
      client,
      pid: child.pid ?? 0,
      dataDir: join(folder, 'data'),
      configFile: join(folder, CONFIG_FILE),
      machinePid: async id => JSON.parse(await readFile(join(folder, 'data/sessions', id, 'state.json'), 'utf8')).pid,
      [Symbol.asyncDispose]: () => stopSandglass(child, client, folder),
    }
  } catch (error) {
    const log = await readFile(join(folder, 'daemon.log'), 'utf8').catch(() => '')
    await stopSandglass(child, client, folder)
    if (signal.aborted) throw error
    throw new Error(`cannot start a daemon; its log ends:\n${log.trim().split('\n').slice(-12).join('\n')}`, { cause: error })
  }
}

/** What a daemon's configuration has to have so that its sessions may be containers of an engine. */
export const onDocker = (socket: string) => ({
  config: { backends: { docker: { api_endpoint: `unix://${socket}`, allow_unenforced: ['disk'] } } },
})

/** OCI runtimes of this machine, the preferred one first. */
export async function installedRuntimes(): Promise<string[]> {
  const found: string[] = []
  for (const runtime of RUNTIMES) {
    const paths = ['/usr/bin', '/usr/sbin', '/usr/local/bin', '/usr/local/sbin'].map(folder => `${folder}/${runtime}`)
    const checks = await Promise.allSettled(paths.map(path => access(path)))
    if (checks.some(check => check.status === 'fulfilled')) found.push(runtime)
  }
  if (found.length === 0) throw new Error('no OCI runtime: apt-get install crun')
  return found
}

async function launch(folder: string, config: object): Promise<ChildProcess> {
  const file = join(folder, CONFIG_FILE)
  // JSON is YAML.
  await writeFile(file, JSON.stringify(config), { mode: 0o600 })
  const main = fileURLToPath(import.meta.resolve('@sandglass/daemon/main'))
  const log = await open(join(folder, 'daemon.log'), 'w')
  try {
    // Its own process group: Ctrl-C reaches this program alone, which then ends the sessions and the daemon.
    return spawn(process.execPath, [main, 'serve', '--config', file], { detached: true, stdio: ['ignore', log.fd, log.fd] })
  } finally {
    await log.close()
  }
}

async function isReady(address: string): Promise<boolean> {
  const reply = await fetch(`http://${address}/readyz`).catch(() => undefined) // nobody listens yet
  if (!reply) return false
  const { status, backends } = await reply.json()
  if (status !== 'ready') throw new Error(`the daemon cannot create sessions: ${JSON.stringify(backends)}`)
  return true
}

/** Sessions outlive their daemon, so they are ended first. */
async function stopSandglass(child: ChildProcess, client: SandboxClient, folder: string): Promise<void> {
  try {
    if (child.exitCode === null && child.signalCode === null) {
      for (const session of await client.listSessions()) await client.session(session.id).destroy()
    }
  } finally {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
    }
    await rm(folder, { recursive: true, force: true })
  }
}
