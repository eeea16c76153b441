// For tests: a daemon in a process of its own, which can be killed. The program of that process is this same file.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Loaded } from '../config/load.ts'

export const KEY = 'sk-test-0123456789abcdef'

export type DaemonProcess = {
  child: ChildProcess
  url: string
  call(method: string, path: string, body?: unknown): Promise<{ status: number; body: never }>
  log(): string
}

/** Resolves when it listens; rejects with its log when it ends before. */
export async function spawnDaemon(dataDir: string, machines: string, listen = '127.0.0.1:0'): Promise<DaemonProcess> {
  const logPath = join(machines, '..', `daemon-${process.pid}-${Math.random().toString(36).slice(2)}.log`)
  const log = openSync(logPath, 'a')
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), dataDir, machines, listen], {
    stdio: ['ignore', log, log],
  })
  const text = () => (existsSync(logPath) ? readFileSync(logPath, 'utf8') : '')
  const deadline = Date.now() + 20_000
  for (;;) {
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(text())?.[0]
    if (url && text().includes('"listening"'))
      return { child, url, log: text, call: (method, path, body) => call(url, method, path, body) }
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`the daemon ended: ${text()}`)
    if (Date.now() > deadline) throw new Error(`the daemon does not listen: ${text()}`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}

async function call(url: string, method: string, path: string, body?: unknown): Promise<{ status: number; body: never }> {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) }
  const headers = { authorization: `Bearer ${KEY}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) }
  const response = await fetch(url + path, { method, headers, ...sent })
  return { status: response.status, body: (await response.json()) as never }
}

export async function endDaemon({ child }: DaemonProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode
  const exit = once(child, 'exit')
  child.kill(signal)
  await exit
  return child.exitCode
}

/** The configuration has no block for the test double: it gets the one of oci. */
export function withPlainChild(loaded: Loaded): Loaded {
  const { backends } = loaded.config
  return { ...loaded, config: { ...loaded.config, backends: Object.assign({ 'plain-child': backends.oci }, backends) } }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [dataDir = '', machines = '', listen = ''] = process.argv.slice(2)
  const [{ startDaemon }, { PlainChildBackend }, { loadConfig }, { createLogger }] = await Promise.all([
    import('../daemon.ts'),
    import('../backends/plain-child/backend.ts'),
    import('../config/load.ts'),
    import('../log.ts'),
  ])
  const flags = {
    listen: [listen],
    'api-key': [KEY],
    'data-dir': [dataDir],
    'backends-oci-allow-unenforced': ['cpu,memory,pids,disk'],
  }
  const runnerPath = fileURLToPath(new URL('../../../../runner/bin/runner', import.meta.url))
  const loaded = loadConfig({ flags, env: {}, home: dataDir, userId: process.getuid?.() ?? 0 })
  const daemon = await startDaemon({
    loaded: withPlainChild(loaded),
    backends: () => [new PlainChildBackend({ forTests: true, folder: machines, runnerPath })],
    log: createLogger('info'),
  })
  process.once('SIGTERM', () => {
    daemon.close().then(
      () => process.exit(0),
      () => process.exit(1),
    )
  })
}
