// The peer of a task: the program of the agent that the daemon installed, started on the host by an ordinary user in a fresh home folder, with
// the arguments, environment and files of a task. Its model is the same stub, over plain HTTP.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, copyFile, link, mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { claude } from '../../../packages/daemon/src/agents/adapters/claude.ts'
import { aRun } from '../../../packages/daemon/src/agents/testing/run.fixture.ts'
import { stubModel } from '../../../packages/daemon/src/agents/testing/stub-model.fixture.ts'
import { ANSWER } from './daemon.ts'

/** nobody */
const USER = 65_534
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

export interface HandRun {
  readonly wholeMs: number
  /** From the start to the first line that was printed. */
  readonly firstLineMs: number
  /** From the first line to the last one. */
  readonly linesMs: number
  /** From the last line to the exit. */
  readonly exitMs: number
}

export interface HostAgent extends AsyncDisposable {
  /** `onLine` is called with each line at its arrival. */
  run(prompt: string, signal: AbortSignal, onLine?: (line: string) => void): Promise<HandRun>
}

/** `program` is the installed one; its folder is private to the daemon, so it gets a second name. */
export async function hostAgent(program: string): Promise<HostAgent> {
  await using stack = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'sg-by-hand-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  await chmod(folder, 0o755)
  const ours = join(folder, 'claude')
  const installed = await realpath(program)
  await link(installed, ours).catch(() => copyFile(installed, ours)) // another file system
  const model = stack.use(await stubModel([{ say: ANSWER }]))
  const owned = stack.move()
  let count = 0
  return {
    async run(prompt, signal, onLine = () => undefined) {
      const home = join(folder, `home-${++count}`)
      const command = claude.launch(aRun({ program: ours, home, cwd: `${home}/workspace`, baseUrl: model.url }))
      await ownFolder(command.env.CLAUDE_CONFIG_DIR ?? home)
      await ownFolder(`${home}/workspace`)
      for (const { path, text } of command.files) await writeFile(path, text).then(() => chown(path, USER, USER))
      const env = { ...command.env, PATH, HOME: home, ANTHROPIC_API_KEY: 'sk-ant-api03-by-hand' }
      try {
        return await timed(command.argv, { env, cwd: `${home}/workspace`, prompt, signal, onLine })
      } finally {
        await rm(home, { recursive: true, force: true })
      }
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

async function ownFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true })
  for (const folder of [path, dirname(path)]) await chown(folder, USER, USER)
}

type Started = { env: Record<string, string>; cwd: string; prompt: string; signal: AbortSignal; onLine: (line: string) => void }

async function timed([program = '', ...args]: readonly string[], run: Started): Promise<HandRun> {
  const { env, cwd, signal, onLine } = run
  const begin = performance.now()
  const child = spawn(program, args, { env, cwd, uid: USER, gid: USER, signal, stdio: ['pipe', 'pipe', 'pipe'] })
  let first: number | undefined
  let last = begin
  let rest = ''
  let errors = ''
  child.stdout.on('data', (chunk: Buffer) => {
    last = performance.now()
    first ??= last
    const lines = (rest + chunk.toString('utf8')).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line)
  })
  child.stderr.on('data', chunk => {
    errors += chunk
  })
  child.stdin.end(run.prompt)
  const [code] = await once(child, 'close')
  const end = performance.now()
  if (code !== 0) throw new Error(`${program} on the host: exit code ${code}, ${errors.trim()}`)
  return { wholeMs: end - begin, firstLineMs: (first ?? end) - begin, linesMs: last - (first ?? end), exitMs: end - last }
}
