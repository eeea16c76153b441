// The test double: a runner as a plain child process, without isolation and limits. Like a machine, it outlives the process that started it.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, openSync } from 'node:fs'
import { chmod, mkdir, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Duplex, Readable } from 'node:stream'
import { SandglassError } from '@sandglass/contract/tables'
import { RunnerSocket } from '@sandglass/runner-link/runner-socket'
import { z } from 'zod'
import { readJson, writeJson } from '../../lib/json-file.ts'
import type {
  Backend,
  LimitEvents,
  LimitKind,
  Machine,
  MachineEgress,
  MachineExit,
  MachineRoot,
  MachineSpec,
  MachineStats,
  Probe,
} from '../backend.ts'
import { openBootLog } from '../machine/boot-log.ts'
import { newEgressToken } from '../machine/egress-endpoint.ts'
import { egressConfig } from '../machine/runner-config.ts'
import { endTree, isAlive, ProcessId, processId, signalTree, treeUsage, waitUntilStopped } from './process-tree.ts'

/** Far longer than a start takes, because many tests run at once. */
const START_TIMEOUT_MS = 25_000
/** sun_path holds 108 bytes with its NUL. */
const MAX_SOCKET_PATH = 107
/** In the folder of the machine. */
const SOCKET = 'runner.sock'
const EGRESS_SOCKET = 'egress.sock'
const NO_PROCESS: ProcessId = { pid: -1, startTicks: -1 }
const LIMITS: readonly LimitKind[] = ['cpu', 'memory', 'pids', 'disk']

const State = z.object({ id: z.string(), token: z.string(), egressToken: z.string().nullable(), runner: ProcessId })
type State = z.infer<typeof State>

export interface PlainChildOptions {
  /** Prevents use outside of tests. SECURITY: programs run with all rights of the daemon. */
  readonly forTests: true
  /** The folder of sessions. Its path is short, because the paths of sockets in it are limited. */
  readonly folder: string
  readonly runnerPath: string
}

export class PlainChildBackend implements Backend {
  readonly name = 'plain-child'
  readonly #folder: string
  readonly #runnerPath: string

  constructor(options: PlainChildOptions) {
    if (options.forTests !== true) throw new Error('plain-child isolates nothing: it is for tests alone')
    this.#folder = options.folder
    this.#runnerPath = options.runnerPath
  }

  async probe(): Promise<Probe> {
    return {
      available: true,
      why: null,
      fix: null,
      detail: 'plain child process, for tests',
      unenforceable: LIMITS,
      weaker: [],
      kernel: 'shared',
    }
  }

  async prepare({ image }: MachineRoot): Promise<void> {
    if (image.kind !== 'host') throw new SandglassError('IMAGE_NOT_FOUND', { image: image.reference })
  }

  async start(spec: MachineSpec, signal: AbortSignal): Promise<Machine> {
    signal.throwIfAborted()
    const hadDisk = (await this.sessionIds()).includes(spec.id)
    const folder = await this.#createFolder(spec.id)
    let child: ProcessId | null = null
    try {
      const token = randomBytes(16).toString('hex')
      const egressToken = spec.egress ? newEgressToken() : null
      const config = { ...runnerConfig(folder, spec, token), ...egressConfig(egressToken) }
      await writeFile(join(folder, 'config.json'), JSON.stringify(config), { mode: 0o600 })
      child = await this.#spawn(folder, spec)
      for (const path of sockets(folder, spec.egress)) await waitUntilListening(path, child, spec.id, signal)
      if (spec.egress) await openToEgress(folder)
      const state: State = { id: spec.id, token, egressToken, runner: child }
      await writeJson(join(folder, 'state.json'), state)
      return new PlainChildMachine(folder, state)
    } catch (error) {
      if (child) await endTree(child, marker(spec.id))
      if (!hadDisk) await rm(folder, { recursive: true, force: true })
      throw error
    }
  }

  async recover(): Promise<Machine[]> {
    const machines = await Promise.all((await this.sessionIds()).map(id => this.#find(id)))
    const running = await Promise.all(machines.map(async m => (m && (await m.isRunning()) ? m : null)))
    return running.filter(m => m !== null)
  }

  async sessionIds(): Promise<string[]> {
    return await readdir(this.#folder)
  }

  bootLog(id: string): Promise<Readable | null> {
    return openBootLog(join(this.#folder, id, 'boot.log'))
  }

  async discard(id: string): Promise<void> {
    const machine = await this.#find(id)
    if (machine) return await machine.destroy()
    // A daemon that died during a start left no record, but perhaps a runner.
    await endTree(NO_PROCESS, marker(id))
    await rm(join(this.#folder, id), { recursive: true, force: true })
  }

  async #find(id: string): Promise<PlainChildMachine | null> {
    const folder = join(await realpath(this.#folder), id)
    const state = await readJson(join(folder, 'state.json'), State)
    return state === null ? null : new PlainChildMachine(folder, state)
  }

  async #createFolder(id: string): Promise<string> {
    const folder = join(await realpath(this.#folder), id)
    if (Buffer.byteLength(join(folder, SOCKET)) > MAX_SOCKET_PATH) throw new Error(`folder is too long for a socket: ${folder}`)
    for (const name of ['workspace', 'tmp', 'home']) await mkdir(join(folder, name), { recursive: true })
    for (const path of sockets(folder, true)) await rm(path, { force: true })
    return folder
  }

  async #spawn(folder: string, { id, egress }: MachineSpec): Promise<ProcessId> {
    const log = openSync(join(folder, 'boot.log'), 'a', 0o600)
    try {
      const args = ['--listen', join(folder, SOCKET), '--config-file', join(folder, 'config.json')]
      const [program = '', ...rest] = egress
        ? [...ownNetwork(), this.#runnerPath, ...args, '--egress-listen', join(folder, EGRESS_SOCKET)]
        : [this.#runnerPath, ...args]
      const child = spawn(program, rest, {
        cwd: folder,
        detached: true,
        stdio: ['ignore', log, log],
        env: { PATH: '/usr/local/bin:/usr/bin:/bin', ...marker(id) },
      })
      child.unref()
      await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject))
      const found = child.pid === undefined ? null : await processId(child.pid)
      if (!found) throw new SandglassError('START_FAILED', { id, why: 'the runner ended at once' })
      return found
    } finally {
      closeSync(log)
    }
  }
}

class PlainChildMachine implements Machine {
  readonly id: string
  readonly containerId: string
  readonly mux = false
  readonly token: string
  readonly egress: MachineEgress | null
  readonly unenforced = LIMITS
  readonly #folder: string
  readonly #runner: ProcessId

  constructor(folder: string, state: State) {
    this.id = state.id
    this.containerId = `plain-${state.runner.pid}`
    this.token = state.token
    const { egressToken } = state
    const endpoint = { kind: 'socket', path: join(folder, EGRESS_SOCKET) } as const
    this.egress = egressToken === null ? null : { token: egressToken, endpoint }
    this.#folder = folder
    this.#runner = state.runner
  }

  dial(): Promise<Duplex> {
    return RunnerSocket.dial(join(this.#folder, SOCKET))
  }

  async isRunning(): Promise<boolean> {
    return await isAlive(this.#runner)
  }

  async stats(): Promise<MachineStats> {
    const usage = await treeUsage(this.#runner, marker(this.id))
    return { ...usage, memoryLimit: null, memoryPeakBytes: null, oomKills: null, pidsLimit: null }
  }

  async limitEvents(): Promise<LimitEvents> {
    return { oomKills: null, pidRefusals: null, pids: null, pidsPeak: null }
  }

  async exitReason(): Promise<MachineExit> {
    return { limit: null, text: 'the runner process ended' }
  }

  async pause(): Promise<void> {
    await signalTree(this.#runner, marker(this.id), 'SIGSTOP')
    await waitUntilStopped(this.#runner)
  }

  async resume(): Promise<void> {
    await signalTree(this.#runner, marker(this.id), 'SIGCONT')
  }

  async stop(): Promise<void> {
    await endTree(this.#runner, marker(this.id))
    for (const path of sockets(this.#folder, true)) await rm(path, { force: true })
  }

  async destroy(): Promise<void> {
    await this.stop()
    await rm(this.#folder, { recursive: true, force: true })
  }
}

/** A variable in the environment of all processes of a machine, by which they are found after their parent has ended. */
function marker(id: string): { SANDGLASS_PLAIN_CHILD: string } {
  return { SANDGLASS_PLAIN_CHILD: id }
}

/**
 * The runner of a machine with egress listens on fixed loopback addresses. In the network of the host, two such runners would exclude each other, and
 * port 53 may be taken; so these machines have a network namespace of their own. They cannot reach servers on the host's loopback interface.
 * /etc/resolv.conf is the host's: a program has to ask 127.0.0.53 itself, or to use the proxy ports of the runner.
 */
function ownNetwork(): string[] {
  return ['unshare', '--net', ...(process.getuid?.() === 0 ? [] : ['--user', '--map-root-user']), '--']
}

function runnerConfig(folder: string, spec: MachineSpec, token: string) {
  const [workdir, tmp, home] = [join(folder, 'workspace'), join(folder, 'tmp'), join(folder, 'home')]
  return {
    token,
    workdir,
    home,
    env: { ...spec.env, ...marker(spec.id) },
    file_roots: [workdir, tmp, home],
    loopback: spec.egress ? ['127.0.0.1/8', '127.0.0.53/8'] : [],
    max_shells: 64,
  }
}

/** Lets any user connect: the egress process has another user id than the daemon. The tokens decide. */
async function openToEgress(folder: string): Promise<void> {
  for (const path of [dirname(folder), folder]) await chmod(path, 0o711)
  await chmod(join(folder, EGRESS_SOCKET), 0o666)
}

const sockets = (folder: string, egress: boolean) => [SOCKET, ...(egress ? [EGRESS_SOCKET] : [])].map(name => join(folder, name))

async function waitUntilListening(path: string, runner: ProcessId, id: string, signal: AbortSignal): Promise<void> {
  const log = join(dirname(path), 'boot.log')
  const deadline = Date.now() + START_TIMEOUT_MS
  for (;;) {
    signal.throwIfAborted()
    const socket = await RunnerSocket.dial(path).catch(() => null)
    if (socket) {
      socket.destroy()
      return
    }
    if (!(await isAlive(runner))) throw new SandglassError('START_FAILED', { id, why: await readFile(log, 'utf8') })
    if (Date.now() > deadline) {
      const said = await readFile(log, 'utf8')
      throw new SandglassError('START_FAILED', { id, why: `the runner does not listen; it said: ${said}` })
    }
    await new Promise(resolve => setTimeout(resolve, 2))
  }
}
