// A daemon of one's own: private folder, socket, key and configuration, gone without a trace when stopped.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { SandboxClient } from '@sandglass/sdk'
import { unixFetch } from '@sandglass/sdk/node'
import { freePort } from '../bench/support/free-port.ts'

const READY_MS = 20_000

export type PrivateDaemon = {
  client: SandboxClient
  /** Points the command line at this daemon. */
  env: { SANDGLASS_CONFIG: string }
  configPath: string
  socketPath: string
  url: string
  apiKey: string
  /** Ends every session, then the daemon, then removes its folder. */
  stop(): Promise<void>
}

export type PrivateOptions = { allowUnenforced?: readonly string[]; signal?: AbortSignal }

export async function startPrivateDaemon(options: PrivateOptions = {}): Promise<PrivateDaemon> {
  const folder = mkdtempSync(join(tmpdir(), 'sandglass-'))
  const apiKey = `sk-private-${randomBytes(24).toString('hex')}`
  const socketPath = join(folder, 'socket')
  const configPath = join(folder, 'config.yaml')
  const address = `127.0.0.1:${await freePort()}`
  const config = {
    data_dir: join(folder, 'data'),
    listen: [`unix:${socketPath}`, address],
    api_key: apiKey,
    backends: { oci: { allow_unenforced: options.allowUnenforced ?? [] } },
  }
  // JSON is YAML.
  writeFileSync(configPath, JSON.stringify(config), { mode: 0o600 })
  const child = serve(configPath, join(folder, 'daemon.log'))
  const client = new SandboxClient({ baseUrl: 'http://sandglass', apiKey, fetch: unixFetch(socketPath) })
  const remove = () => rmSync(folder, { recursive: true, force: true })
  try {
    await answering(client, child, options.signal)
  } catch (error) {
    await ended(child)
    const log = readFileSync(join(folder, 'daemon.log'), 'utf8')
    remove()
    options.signal?.throwIfAborted()
    throw new Error(`the daemon did not start\n${log}`, { cause: error })
  }
  return {
    client,
    env: { SANDGLASS_CONFIG: configPath },
    configPath,
    socketPath,
    url: `http://${address}`,
    apiKey,
    async stop() {
      await Promise.all((await client.listSessions()).map(({ id }) => client.session(id).destroy({ purge: true })))
      await ended(child)
      remove()
    },
  }
}

/**
 * Its output goes to a file: a sandbox that outlived the daemon would hold a pipe open. It has a process group of its own, so that Ctrl-C
 * reaches whoever started it, and that one ends the sessions first.
 */
function serve(configPath: string, logPath: string): ChildProcess {
  const log = openSync(logPath, 'a', 0o600)
  const child = spawn(process.execPath, ['packages/cli/bin/sandglass.mjs', 'serve', '--config', configPath], {
    detached: true,
    stdio: ['ignore', log, log],
  })
  closeSync(log)
  return child
}

async function answering(client: SandboxClient, child: ChildProcess, signal: AbortSignal | undefined): Promise<void> {
  const deadline = performance.now() + READY_MS
  for (;;) {
    signal?.throwIfAborted()
    if (child.exitCode !== null) throw new Error(`it ended with code ${child.exitCode}`)
    try {
      await client.health()
      return
    } catch (error) {
      if (performance.now() > deadline) throw error
      await setTimeout(20)
    }
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGTERM')
  await exit
}
