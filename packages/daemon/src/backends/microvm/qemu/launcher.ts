// Starts QEMU through `runner launch vm`, which stays with it: it opens what QEMU may use, shuts it in, and writes the boot log.
import { type ChildProcess, spawn } from 'node:child_process'
import type { Writable } from 'node:stream'
import type { ProcessState } from '../../machine/process-state.ts'

/** What the keeper is told; the shape is its own. */
export interface VmJob {
  readonly argv: readonly string[]
  /** Descriptors 3 and on, in this order; the sockets follow. */
  readonly files: readonly { readonly path: string; readonly write: boolean }[]
  readonly sockets: readonly string[]
  readonly bridge: string
  readonly shares?: VmShares | undefined
  readonly share_socket: string
  readonly log: string
  readonly log_bytes: number
  /** Absent where this host allows none. */
  readonly jail?:
    | { readonly path: string; readonly id: number; readonly programs: readonly string[]; readonly devices: readonly string[] }
    | undefined
  readonly groups: readonly object[]
  readonly rlimits: readonly { readonly resource: number; readonly limit: number }[]
}

/** Folders of the host; their descriptors come last. */
export interface VmShares {
  readonly path: string
  readonly argv: readonly string[]
  readonly root_id: number
  readonly user_id: number
  readonly folders: readonly object[]
}

export interface Kept {
  readonly qemu: ProcessState
  readonly keeper: ProcessState
  /** Lets the machine live on without this process. Until then it ends with it, however it dies. */
  release(): void
}

interface Answer {
  readonly ok: boolean
  readonly error?: string
  readonly state?: ProcessState
  readonly keeper?: ProcessState
}

const MAX_ANSWER = 64 * 1024

/** QEMU could not be started, in the keeper's words. */
export class KeeperError extends Error {
  override readonly name = 'KeeperError'
}

export async function startKept(runnerPath: string, id: string, job: VmJob): Promise<Kept> {
  // Its own session: Ctrl-C at the daemon's terminal must not reach a machine. No environment: the daemon's may hold keys.
  const child = spawn(runnerPath, ['launch', 'vm', id], { stdio: ['pipe', 'pipe', 'ignore'], detached: true, cwd: '/', env: {} })
  child.stdin.on('error', () => child.stdin.destroy())
  child.stdin.write(`${JSON.stringify(job)}\n`)
  const answer = await readAnswer(child)
  if (answer.state === undefined || answer.keeper === undefined) {
    child.stdin.destroy()
    throw new KeeperError(answer.error ?? 'the keeper of the machine gave no answer')
  }
  child.unref()
  unreference(child.stdin)
  return { qemu: answer.state, keeper: answer.keeper, release: () => child.stdin.end('keep\n') }
}

async function readAnswer(child: ChildProcess): Promise<Answer> {
  let text = ''
  const done = Promise.withResolvers<void>()
  child.once('error', done.reject)
  child.stdout?.setEncoding('utf8').on('data', (part: string) => {
    text += part
    if (text.endsWith('\n') || text.length > MAX_ANSWER) done.resolve()
  })
  child.stdout?.once('close', done.resolve)
  await done.promise
  return text.endsWith('\n') ? (JSON.parse(text) as Answer) : { ok: false }
}

/** A daemon that has nothing else to do may exit. */
function unreference(stream: Writable): void {
  if ('unref' in stream && typeof stream.unref === 'function') stream.unref()
}
