// What the checks work with: the backend under test, and machines to run commands in.
import { spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import { newId } from '@sandglass/contract/tables'
import { openLink, type RunnerLink } from '@sandglass/runner-link/link'
import type { Backend, LimitKind, Machine, MachineSpec } from '../backend.ts'

export interface Subject {
  /** Opens the backend on the same data folder each time, as a restarted daemon does. */
  open(): Promise<Backend>
  /**
   * A program that opens the same backend, starts a machine for the spec in its last argument (JSON), prints a line with `started`, and
   * waits to be killed.
   */
  readonly starter: readonly string[]
  /** Limits that this host cannot enforce for this backend. */
  readonly allowUnenforced: readonly LimitKind[]
  /** Factor for all deadlines; 1 where absent. An emulated processor is slow. */
  readonly patience?: number
  /** The most privileged user of a sandbox; root where absent. `asRoot` runs as this user. */
  readonly strongest?: 'sandbox'
  /** The runtime that machines ask for; the backend's default where absent. */
  readonly runtime?: string
  /** Whether that runtime gives a machine its own kernel. Where absent, the probe of the backend decides. */
  readonly hasOwnKernel?: boolean
}

const START_MS = 20_000
const RUN_MS = 15_000

export type Check = (backend: Backend, subject: Subject) => Promise<void>

export interface Ran {
  readonly output: string
  readonly code: number
}

/** A machine and a way to run command lines in it. */
export interface Box {
  readonly machine: Machine
  readonly spec: MachineSpec
  readonly link: RunnerLink
  run(command: string, timeoutMs?: number): Promise<Ran>
  asRoot(command: string, timeoutMs?: number): Promise<Ran>
}

export function specOf(subject: Pick<Subject, 'allowUnenforced' | 'runtime'>, changes: Partial<MachineSpec> = {}): MachineSpec {
  return {
    id: newId('sess_'),
    name: 'conforming',
    image: { kind: 'host' },
    trust: null,
    cpuCores: 1,
    memoryMb: 256,
    diskMb: 1024,
    pidsLimit: 64,
    readonlyRootfs: true,
    runtime: subject.runtime ?? null,
    network: 'none',
    egress: false,
    mounts: [],
    packages: [],
    nestedVirt: false,
    canPause: false,
    persist: false,
    env: {},
    allowUnenforced: subject.allowUnenforced,
    ...changes,
  }
}

/** Runs `work` with a machine, and destroys the machine afterwards, also on failure. */
export async function inBox(
  backend: Backend,
  subject: Subject,
  changes: Partial<MachineSpec>,
  work: (box: Box) => Promise<void>,
): Promise<void> {
  const spec = specOf(subject, changes)
  const machine = await backend.start(spec, startsInTime(subject))
  const box = boxOf(machine, spec, subject)
  try {
    await work(box)
  } finally {
    box.link.close()
    await machine.destroy()
  }
}

export function startsInTime({ patience = 1 }: Pick<Subject, 'patience'>): AbortSignal {
  return AbortSignal.timeout(START_MS * patience)
}

export function boxOf(machine: Machine, spec: MachineSpec, subject: Pick<Subject, 'strongest' | 'patience'>): Box {
  const { strongest, patience = 1 } = subject
  const link = openLink(machine)
  let hasRootShell = false
  const exec = async (command: string, shell: string, timeoutMs: number): Promise<Ran> => {
    const { message, body } = await link.request('exec', { cmd: command, shell, timeout_ms: timeoutMs })
    return { output: body.toString('utf8').replaceAll('\r\n', '\n').trim(), code: Number(message.exit_code) }
  }
  return {
    machine,
    spec,
    link,
    run: (command, timeoutMs = RUN_MS) => exec(command, 'main', timeoutMs * patience),
    asRoot: async (command, timeoutMs = RUN_MS) => {
      if (!hasRootShell) await link.request('shell.create', { name: 'root', user: strongest ?? 'root' })
      hasRootShell = true
      return await exec(command, 'root', timeoutMs * patience)
    },
  }
}

/** Waits for a condition; throws an error with `what` at the deadline. */
export async function until(what: string, condition: () => boolean | Promise<boolean>, deadlineMs = 10_000): Promise<void> {
  const end = Date.now() + deadlineMs
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`not in time: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}

/** Starts a process that plays the daemon and starts a machine. */
export function starter(subject: Pick<Subject, 'starter'>, spec: MachineSpec) {
  const [program = '', ...args] = subject.starter
  return spawn(program, [...args, JSON.stringify(spec)], { stdio: ['ignore', 'pipe', 'inherit'] })
}

/** Resolves when a starter has printed the word. */
export function said({ stdout }: { readonly stdout: Readable }, word: string): Promise<void> {
  let text = ''
  return new Promise((resolve, reject) => {
    stdout.on('data', piece => {
      text += piece
      if (text.includes(word)) resolve()
    })
    stdout.once('end', () => reject(new Error(`the starter ended before it printed ${word}`)))
  })
}
