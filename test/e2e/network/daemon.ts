// A daemon whose sessions reach the servers of upstream.ts under their names.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type Json, RealDaemon } from '../real-daemon.ts'
import { startUpstream, type Upstream } from './upstream.ts'

export interface NetworkFixture extends AsyncDisposable {
  readonly daemon: RealDaemon
  readonly upstream: Upstream
  /** Stores a policy and returns its name. */
  policy(name: string, policy: object): Promise<string>
  secret(name: string, spec: object): Promise<void>
  /** Runs a command line; throws unless it exits with 0, and returns its output. */
  run(id: string, cmd: string, more?: Record<string, unknown>): Promise<string>
  /** Entries of the network log. */
  entries(id: string): Promise<Json[]>
}

/** Addresses by host and port, in addition to those of the upstream; null for none at all. */
type Overrides = (upstream: Upstream) => Promise<Record<string, string> | null>

/** `settings` are further keys of `egress` in the configuration. */
export async function startNetwork(
  backend: 'oci' | 'docker' | 'microvm',
  more: Overrides = async () => ({}),
  settings: object = {},
): Promise<NetworkFixture> {
  await using stack = new AsyncDisposableStack()
  const upstream = stack.use(await startUpstream())
  const engine = backend === 'docker' ? stack.use(await startEngine()) : null
  const dataDir = mkdtempSync(join(tmpdir(), 'sg-'))
  const configPath = join(upstream.folder, 'config.yaml')
  const docker = engine && { api_endpoint: `unix://${engine.socket}`, allow_unenforced: ['disk'] }
  const further = await more(upstream)
  const overrides = further === null ? {} : { ...upstream.egress.overrides, ...further }
  const config = { egress: { ...upstream.egress, overrides, ...settings }, ...(docker && { backends: { docker } }) }
  writeFileSync(configPath, JSON.stringify(config), { mode: 0o600 })
  const daemon = new RealDaemon(['--config', configPath], dataDir)
  stack.defer(() => daemon.remove())
  await daemon.start()
  const ok = async (method: string, path: string, body?: unknown) => {
    const reply = await daemon.call(method, path, body)
    if (reply.status >= 300) throw new Error(`${method} ${path}: ${reply.status} ${reply.body}`)
    return reply
  }
  const owned = stack.move()
  return {
    daemon,
    upstream,
    async policy(name, policy) {
      await ok('PUT', `/v1/policies/${name}`, policy)
      return name
    },
    async secret(name, spec) {
      await ok('PUT', `/v1/secrets/${name}`, spec)
    },
    async run(id, cmd, options) {
      const { exit_code, output } = await daemon.exec(id, cmd, { timeout_ms: 110_000, ...options })
      if (exit_code !== 0) throw new Error(`${cmd} exited with ${exit_code}: ${output}`)
      return output
    },
    async entries(id) {
      const { body } = await ok('GET', `/v1/sessions/${id}/network`)
      return [...body.toString().matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? ''))
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

async function startEngine(): Promise<AsyncDisposable & { socket: string }> {
  const child: ChildProcess = spawn(process.execPath, [resolve('tools/docker-engine.ts')], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [line] = await once(child.stdout ?? child, 'data')
  return {
    socket: JSON.parse(String(line)).socket,
    async [Symbol.asyncDispose]() {
      child.stdin?.end()
      if (child.exitCode === null) await once(child, 'exit')
    },
  }
}
