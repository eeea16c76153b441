// A private home folder for the command line, with its own daemon and sessions, which are all removed at the end.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { deadline } from './deadline.ts'

export const SANDGLASS = resolve('sandglass')
/** For tests of doctor that are not about KVM: a /dev/kvm that opens but boots nothing would be tried for some seconds. */
export const WITHOUT_KVM = { SANDGLASS_BACKENDS_MICROVM_ACCEL: 'tcg' }

export type Ran = { code: number | null; signal: NodeJS.Signals | null; stdout: string; stderr: string }
/** Called with the whole output so far, each time there is more. */
type Watch = (text: string, kill: (signal: NodeJS.Signals) => void) => void

export type RunOptions = {
  input?: string | Buffer
  env?: Record<string, string>
  cwd?: string
  onStdout?: Watch
  onStderr?: Watch
}

/** The program to run, and the PATH in which it finds others. */
export type Installation = { program: string; path: string }
const CLONE: Installation = { program: SANDGLASS, path: process.env.PATH ?? '' }

export class CliHome {
  readonly home: string
  readonly #installation: Installation

  private constructor(home: string, installation: Installation) {
    this.home = home
    this.#installation = installation
  }

  static async open(installation = CLONE): Promise<CliHome> {
    return new CliHome(await mkdtemp(join(tmpdir(), 'sg-cli-')), installation)
  }

  get env(): Record<string, string> {
    return {
      PATH: this.#installation.path,
      HOME: this.home,
      TERM: 'xterm-256color',
      // Without this, each test would compile the code again into its own home folder.
      NODE_COMPILE_CACHE: resolve('.cache/compile'),
    }
  }

  get dataDir(): string {
    return join(this.home, '.sandglass/data')
  }

  get daemonPid(): number {
    return Number(readFileSync(join(this.dataDir, 'lock.pid'), 'utf8'))
  }

  /** Runs the command line as a process. Without `input` its stdin is /dev/null. */
  run(args: readonly string[], { input, env, cwd, onStdout, onStderr }: RunOptions = {}): Promise<Ran> {
    const child = spawn(this.#installation.program, args, {
      cwd,
      env: { ...this.env, ...env },
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    })
    const ran: Ran = { code: null, signal: null, stdout: '', stderr: '' }
    child.stdout?.setEncoding('utf8').on('data', text => {
      ran.stdout += text
      onStdout?.(ran.stdout, signal => child.kill(signal))
    })
    child.stderr?.setEncoding('utf8').on('data', text => {
      ran.stderr += text
      onStderr?.(ran.stderr, signal => child.kill(signal))
    })
    // A command that does not read its input may end before it is written.
    child.stdin?.on('error', () => undefined).end(input)
    const { promise, resolve: done, reject } = Promise.withResolvers<Ran>()
    child.once('error', reject)
    child.once('close', (code, signal) => done({ ...ran, code, signal }))
    return promise
  }

  /** Ends every session and the daemon. */
  async close(): Promise<void> {
    if (existsSync(join(this.dataDir, 'lock.pid'))) {
      const { stdout } = await this.run(['ls', '--json'])
      const names = (JSON.parse(stdout || '[]') as { name: string }[]).map(session => session.name)
      if (names.length > 0) await this.run(['rm', '-f', '--purge', ...names])
      const pid = this.daemonPid
      process.kill(pid, 'SIGTERM')
      await deadline('the daemon ends', () => !isAlive(pid))
    }
    await rm(this.home, { recursive: true, force: true })
  }
}

/** A zombie counts as ended: in a container, pid 1 may never wait for it. */
export function isAlive(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT' || (error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}
