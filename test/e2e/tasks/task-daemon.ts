// A daemon that installs the real agents from a cache and reaches a stub model under the names of the real ones, through interception.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AgentName } from '@sandglass/contract'
import { cachedRegistry } from '../../../packages/daemon/src/agents/testing/cached-registry.fixture.ts'
import { type StubModel, type StubTurn, stubModel } from '../../../packages/daemon/src/agents/testing/stub-model.fixture.ts'
import { freePort } from '../../../packages/daemon/src/testing/free-port.fixture.ts'
import { type Json, RealDaemon } from '../real-daemon.ts'

/** Real values of keys: nothing but the stub model may ever see them. */
export const KEYS = {
  claude: 'sk-ant-api03-REALrealREALrealREALreal0123456789',
  codex: 'sk-proj-REALrealREALrealREALreal0123456789',
  opencode: 'sk-ant-api03-REALopencodeREALopencode0123456789',
}
const HOSTS = ['api.anthropic.com', 'api.openai.com', 'gateway.example', 'mcp.example']

export interface TaskDaemon extends AsyncDisposable {
  readonly daemon: RealDaemon
  /** Plays these turns to the next agent. */
  model(turns: readonly StubTurn[]): Promise<StubModel>
  /** Creates a task and returns it; throws what the daemon said. */
  create(spec: object): Promise<Json>
  /** Waits for the end of a task and returns it. */
  ended(id: string): Promise<Json>
  run(spec: object): Promise<Json>
  /** All events, as the stream has them. */
  events(id: string, query?: string, headers?: Record<string, string>): Promise<Json[]>
}

/** `installed` agents are there before the first task: how long that takes depends on the network and the disk. */
export async function startTasks(config: object = {}, installed: readonly AgentName[] = []): Promise<TaskDaemon> {
  await using stack = new AsyncDisposableStack()
  const folder = mkdtempSync(join(tmpdir(), 'sg-tasks-'))
  stack.defer(() => rmSync(folder, { recursive: true, force: true }))
  const tls = makeCertificate(folder)
  const registry = await cachedRegistry()
  stack.defer(() => registry.close())
  // The port of the stub is fixed, so that its name is in the configuration before the first one starts.
  const port = await freePort()
  const path = join(folder, 'config.yaml')
  const overrides = Object.fromEntries(HOSTS.map(host => [`${host}:443`, `127.0.0.1:${port}`]))
  const settings = { agents: { registry: registry.url }, egress: { ca_files: [tls.ca], overrides }, ...config }
  writeFileSync(path, JSON.stringify(settings), { mode: 0o600 })
  const daemon = new RealDaemon(['--config', path])
  stack.defer(() => daemon.remove())
  await daemon.start()
  for (const [agent, value] of Object.entries(KEYS)) {
    const preset = agent === 'codex' ? 'openai' : 'anthropic'
    const reply = await daemon.call('PUT', `/v1/secrets/agent.${agent}`, { value, preset })
    if (reply.status >= 300) throw new Error(`secret: ${reply.body}`)
  }
  for (const agent of installed) {
    const { body } = await daemon.call('POST', `/v1/agents/${agent}/install`, {})
    if (!body.includes('event: done')) throw new Error(`install of ${agent}: ${body}`)
  }
  let current: StubModel | undefined
  stack.defer(() => current?.close())
  const owned = stack.move()
  const made: TaskDaemon = {
    daemon,
    async model(turns) {
      await current?.close()
      current = await stubModel(turns, { tls, port })
      return current
    },
    async create(spec) {
      const reply = await daemon.call('POST', '/v1/tasks', spec)
      if (reply.status !== 201) throw new Error(`task: ${reply.status} ${reply.body}`)
      return reply.json().items[0]
    },
    async ended(id) {
      await daemon.call('GET', `/v1/tasks/${id}/events?tail=0`)
      return (await daemon.call('GET', `/v1/tasks/${id}`)).json()
    },
    run: async spec => made.ended((await made.create(spec)).id),
    async events(id, query = '', headers = {}) {
      const { body } = await daemon.call('GET', `/v1/tasks/${id}/events${query}`, undefined, headers)
      const blocks = body.toString().split('\n\n')
      return blocks.flatMap(block => (/^id: /m.test(block) ? [JSON.parse(/^data: (.*)$/m.exec(block)?.[1] ?? '')] : []))
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
  return made
}

function makeCertificate(folder: string): { ca: string; cert: Buffer; key: Buffer } {
  const path = (name: string) => join(folder, name)
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const fresh = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  openssl('req', '-x509', ...fresh, '-keyout', path('ca.key'), '-out', path('ca.pem'), '-days', '2', '-subj', '/CN=Test CA')
  openssl('req', ...fresh, '-keyout', path('key'), '-out', path('csr'), '-subj', '/CN=model')
  writeFileSync(path('names'), `subjectAltName=${HOSTS.map(host => `DNS:${host}`).join(',')}`)
  const signed = ['-CA', path('ca.pem'), '-CAkey', path('ca.key'), '-CAcreateserial', '-days', '2', '-extfile', path('names')]
  openssl('x509', '-req', '-in', path('csr'), '-out', path('cert'), ...signed)
  return { ca: path('ca.pem'), cert: readFileSync(path('cert')), key: readFileSync(path('key')) }
}
