// For tests: a daemon in this process on the plain-child backend, with a client that speaks plain HTTP.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { Backend } from '../backends/backend.ts'
import { PlainChildBackend } from '../backends/plain-child/backend.ts'
import { RUNNER_PATH } from '../backends/plain-child/plain-child.fixture.ts'
import { loadConfig } from '../config/load.ts'
import { type Daemon, startDaemon } from '../daemon.ts'
import { killProcess } from '../egress/start-process.ts'
import { createLogger } from '../log.ts'
import { KEY, withPlainChild } from './daemon-process.fixture.ts'

export { KEY }

export type Reply = { status: number; headers: Headers; body: never; text: string }
export type TestDaemon = Daemon & {
  url: string
  dataDir: string
  logged: Record<string, unknown>[]
  /** Sends a JSON request; the body of the reply is parsed if it is JSON. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply>
  create(spec?: object): Promise<{ id: string; name: string; expires_at: string }>
  fetch(path: string, init?: RequestInit): Promise<Response>
}

export type FixtureOptions = {
  flags?: Record<string, string[]>
  dataDir?: string
  now?: () => number
  backends?: (dataDir: string) => Backend[]
}

export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sg-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

export function plainChild(folder: string): PlainChildBackend {
  return new PlainChildBackend({ forTests: true, folder, runnerPath: RUNNER_PATH })
}

export const FLAGS = {
  listen: ['127.0.0.1:0', 'unix'],
  'api-key': [KEY],
  'backends-oci-allow-unenforced': ['cpu,memory,pids,disk'],
}

export async function daemonFixture(options: FixtureOptions = {}): Promise<TestDaemon> {
  const dataDir = options.dataDir ?? (await temporaryFolder())
  const machines = await temporaryFolder()
  const flags = { ...FLAGS, 'data-dir': [dataDir], ...options.flags }
  const loaded = withPlainChild(loadConfig({ flags, env: {}, home: machines, userId: process.getuid?.() ?? 0 }))
  const logged: Record<string, unknown>[] = []
  const log = createLogger('debug', { write: line => void logged.push(JSON.parse(line)) })
  const backends = options.backends ?? (() => [plainChild(machines)])
  const daemon = await startDaemon({ loaded, backends, log, ...(options.now ? { now: options.now } : {}) })
  onTestFinished(async () => {
    await daemon.close().catch(() => undefined) // a test may have closed it
    for (const backend of daemon.context.backends.values()) for (const id of await backend.sessionIds()) await backend.discard(id)
    // It goes on while sessions run.
    await killProcess(dataDir)
  })
  const url = daemon.addresses.find(a => a.startsWith('http')) ?? ''
  const request = (path: string, init: RequestInit = {}) =>
    fetch(url + path, { ...init, headers: { authorization: `Bearer ${KEY}`, ...(init.headers as Record<string, string>) } })
  const call: TestDaemon['call'] = async (method, path, body, headers = {}) => {
    const sent = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }
    const response = await request(path, {
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...sent,
    })
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.includes('json')
    return { status: response.status, headers: response.headers, text, body: (isJson ? JSON.parse(text) : null) as never }
  }
  return {
    ...daemon,
    url,
    dataDir,
    logged,
    call,
    fetch: request,
    async create(spec = {}) {
      const reply = await call('POST', '/v1/sessions', spec)
      if (reply.status !== 201) throw new Error(`create: ${reply.text}`)
      return reply.body
    },
  }
}

/** Waits for a condition, with a deadline. */
export async function until<T>(
  condition: () => Promise<T | null | undefined | false> | T | null | undefined | false,
  ms = 20_000,
): Promise<T> {
  const deadline = Date.now() + ms
  for (;;) {
    const found = await condition()
    if (found) return found
    if (Date.now() > deadline) throw new Error(`not in ${ms} ms: ${condition}`)
    await new Promise(resolve => setTimeout(resolve, 10))
  }
}
