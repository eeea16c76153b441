// Finds the host's process of a program that sleeps in a machine.
import { expect } from 'vitest'
import type { Backend } from '../backend.ts'
import { type HostProcess, hostProcesses } from './host-view.ts'
import { type Box, type Subject, until } from './subject.ts'

/** Processes of the host with the id of a machine in their command line that are not the machine. */
const HELPERS = / supervise |^\S*containerd-shim/

/** A random duration, which distinguishes the processes of one check from those of a suite that runs at the same time. */
export function sleepLength(): number {
  return 100_000 + Math.floor(Math.random() * 1e9)
}

/** The host's process for a program that sleeps this long: the program itself, or the one process of a machine with its own kernel. */
export async function seenAs(backend: Backend, subject: Subject, { machine }: Box, length: number): Promise<HostProcess> {
  if (!(await hasOwnKernel(backend, subject))) return await sleeper(length)
  const isMachine = (argv: string) => [machine.id, machine.containerId].some(id => argv.includes(id)) && !HELPERS.test(argv)
  const found = hostProcesses().filter(({ argv }) => isMachine(argv))
  expect(found).toHaveLength(1)
  expect(hostProcesses().some(({ argv }) => argv.trim() === `sleep ${length}`)).toBe(false)
  return found[0] ?? { pid: 0, argv: '', uid: Number.NaN }
}

export async function hasOwnKernel(backend: Backend, subject: Subject): Promise<boolean> {
  return subject.hasOwnKernel ?? (await backend.probe()).kernel === 'own'
}

/** Waits until the shell has executed the program. */
async function sleeper(length: number): Promise<HostProcess> {
  const find = () => hostProcesses().find(({ argv }) => argv.trim() === `sleep ${length}`)
  await until('the program runs', () => find() !== undefined)
  return find() ?? { pid: 0, argv: '', uid: Number.NaN }
}
