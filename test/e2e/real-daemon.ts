// A real daemon with the real backend on a data folder of its own, for tests that cross processes.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { deadline } from './deadline.ts'

const MAIN = fileURLToPath(import.meta.resolve('@sandglass/daemon/main'))

export type Reply = { status: number; headers: Record<string, string | string[] | undefined>; body: Buffer; json: () => Json }
// biome-ignore lint/suspicious/noExplicitAny: replies are probed field by field; the assertions are the check
export type Json = any

export class RealDaemon {
  readonly dataDir: string
  readonly socket: string
  readonly flags: string[]
  log = ''
  #child: ChildProcess | undefined

  constructor(flags: string[] = [], dataDir = mkdtempSync(join(tmpdir(), 'sg-')), socket = 'sandglass.sock') {
    this.flags = flags
    this.dataDir = dataDir
    this.socket = join(dataDir, socket)
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  get key(): string {
    return readFileSync(join(this.dataDir, 'api-key'), 'utf8').trim()
  }

  /** Resolves when the daemon answers. */
  async start(): Promise<this> {
    const args = [MAIN, 'serve', '--data-dir', this.dataDir, '--listen', 'unix', ...this.flags]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] })
    this.#child = child
    child.stderr?.on('data', chunk => {
      this.log += chunk
    })
    let hasEnded = false
    child.once('close', () => {
      hasEnded = true
    })
    await deadline('the daemon answers', async () => {
      // Its last words may arrive after its exit.
      if (hasEnded) throw new Error(`daemon exited ${child.exitCode}: ${this.log}`)
      const reply = await this.call('GET', '/healthz').catch(() => undefined)
      return reply?.status === 200
    })
    return this
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill(signal)
    await gone
  }

  async restart(signal: NodeJS.Signals): Promise<void> {
    await this.stop(signal)
    await this.start()
  }

  /** Ends every session, the daemon and its folder. */
  async remove(): Promise<void> {
    if (this.#child?.exitCode === null && this.#child.signalCode === null) {
      const { items } = (await this.call('GET', '/v1/sessions?limit=200')).json()
      await Promise.all(items.map((s: Json) => this.call('DELETE', `/v1/sessions/${s.id}`)))
    }
    await this.stop()
    // The launchers of a daemon that was killed end on their own, and may still write a disk there.
    rmSync(this.dataDir, { recursive: true, force: true, maxRetries: 10 })
  }

  call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Reply> {
    const payload = body === undefined || Buffer.isBuffer(body) ? body : JSON.stringify(body)
    const type = Buffer.isBuffer(body) ? 'application/octet-stream' : 'application/json'
    const auth = path === '/healthz' ? {} : { authorization: `Bearer ${this.key}` }
    return new Promise((resolve, reject) => {
      const req = request(
        {
          socketPath: this.socket,
          method,
          path,
          headers: { ...auth, ...(payload === undefined ? {} : { 'content-type': type }), ...headers },
        },
        res => {
          const chunks: Buffer[] = []
          res.on('data', chunk => chunks.push(chunk))
          res.on('error', reject)
          res.on('end', () => {
            const all = Buffer.concat(chunks)
            resolve({ status: res.statusCode ?? 0, headers: res.headers, body: all, json: () => JSON.parse(all.toString()) })
          })
        },
      )
      req.on('error', reject)
      req.end(payload)
    })
  }

  /** Creates a session and answers with it, or throws what the daemon said. */
  async create(spec: Record<string, unknown> = {}): Promise<Json> {
    const reply = await this.call('POST', '/v1/sessions', spec)
    if (reply.status !== 201) throw new Error(`create: ${reply.status} ${reply.body}`)
    return reply.json()
  }

  async exec(id: string, cmd: string, more: Record<string, unknown> = {}): Promise<Json> {
    return (await this.call('POST', `/v1/sessions/${id}/exec`, { cmd, ...more })).json()
  }
}
