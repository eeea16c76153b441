// Ours: a daemon with an agent from a registry on this machine. Claude Code reaches a stub model under the name of the real one, through
// interception; the other agent is a script.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { cachedRegistry } from '../../../packages/daemon/src/agents/testing/cached-registry.fixture.ts'
import { SCRIPTED_VERSION } from '../../../packages/daemon/src/agents/testing/scripted-registry.fixture.ts'
import { stubModel } from '../../../packages/daemon/src/agents/testing/stub-model.fixture.ts'
import { makeCertificate } from '../https/server.ts'
import { type Sandglass, startSandglass } from '../sandglass.ts'
import { bashRegistry } from './scripted-agent.ts'

const SANDGLASS = resolve(import.meta.dirname, '../../../sandglass')
const COMPILE_CACHE = resolve(import.meta.dirname, '../../../.cache/compile')
const MODEL_HOST = 'api.anthropic.com'
/** What the stub model says in every turn. */
export const ANSWER = 'It is done.'

export interface TaskDaemon extends AsyncDisposable, Pick<Sandglass, 'client' | 'pid'> {
  /** The installed program of the agent, on the host. */
  program(): Promise<string>
  /** Milliseconds from the start of `sandglass run -a claude -p …` to its exit. */
  runCommand(prompt: string, signal: AbortSignal): Promise<number>
  /** Removes the sessions and files of tasks that have ended. */
  clean(): Promise<void>
}

export async function startClaudeDaemon(signal: AbortSignal): Promise<TaskDaemon> {
  await using stack = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'sg-model-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  makeCertificate(folder, `DNS:${MODEL_HOST}`)
  const [cert, key] = await Promise.all(['server.pem', 'server.key'].map(name => readFile(join(folder, name), 'utf8')))
  const model = stack.use(await stubModel([{ say: ANSWER }], { tls: { cert: cert ?? '', key: key ?? '' } }))
  const registry = await cachedRegistry()
  stack.defer(() => registry.close())
  const egress = { ca_files: [join(folder, 'ca.pem')], overrides: { [`${MODEL_HOST}:443`]: `127.0.0.1:${model.port}` } }
  const sandglass = stack.use(await startSandglass({ config: { agents: { registry: registry.url }, egress } }, signal))
  return taskDaemon(sandglass, stack.move())
}

export async function startScriptedDaemon(signal: AbortSignal): Promise<TaskDaemon> {
  await using stack = new AsyncDisposableStack()
  const registry = stack.use(await bashRegistry())
  const agents = { registry: registry.url, versions: { claude: SCRIPTED_VERSION } }
  const sandglass = stack.use(await startSandglass({ config: { agents } }, signal))
  return taskDaemon(sandglass, stack.move())
}

async function taskDaemon(sandglass: Sandglass, owned: AsyncDisposableStack): Promise<TaskDaemon> {
  await using stack = new AsyncDisposableStack()
  stack.use(owned)
  const { client, pid, dataDir, configFile } = sandglass
  await client.secrets.set('agent.claude', 'sk-ant-api03-of-the-benchmark', { preset: 'anthropic' })
  const kept = stack.move()
  return {
    client,
    pid,
    async program() {
      const folder = join(dataDir, 'agents', 'claude')
      const [digest = ''] = (await readdir(folder)).filter(name => /^[0-9a-f]{64}$/.test(name))
      return join(folder, digest, 'bin', 'claude')
    },
    runCommand: (prompt, signal) => runCommand(prompt, configFile, signal),
    async clean() {
      for (const { context } of await client.tasks.list()) await client.contexts.remove(context)
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

async function runCommand(prompt: string, configFile: string, signal: AbortSignal): Promise<number> {
  const env = { PATH: '/usr/bin:/bin', HOME: tmpdir(), SANDGLASS_CONFIG: configFile, NODE_COMPILE_CACHE: COMPILE_CACHE }
  const argv = ['run', '-a', 'claude', '-p', prompt]
  const begin = performance.now()
  const child = spawn(SANDGLASS, argv, { env, signal, stdio: ['ignore', 'pipe', 'pipe'] })
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  const wholeMs = performance.now() - begin
  if (code !== 0 || stdout.trim() !== ANSWER) throw new Error(`sandglass run: exit code ${code}, ${stdout}${stderr}`)
  return wholeMs
}
