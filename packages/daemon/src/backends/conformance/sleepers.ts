// What the host sees of a program that sleeps in a machine, and of the machine around it.
import { expect } from 'vitest'
import type { Backend } from '../backend.ts'
import { type HostProcess, hostProcesses } from './host-view.ts'
import { type Box, type Subject, until } from './subject.ts'

/** Bears the id of a machine and is none of it. */
const AROUND = / launch vm |^\S*containerd-shim/

/** Tells the processes of one check from those of a suite that runs beside it. */
export function sleepLength(): number {
  return 100_000 + Math.floor(Math.random() * 1e9)
}

/** What the host sees of a program that sleeps so long in a machine: its own process, or the one that all of the machine is. */
export async function seenAs(backend: Backend, subject: Subject, { machine }: Box, length: number): Promise<HostProcess> {
  if (!(await hasOwnKernel(backend, subject))) return await sleeper(length)
  const isIts = (argv: string) => [machine.id, machine.containerId].some(id => argv.includes(id)) && !AROUND.test(argv)
  const found = hostProcesses().filter(({ argv }) => isIts(argv))
  expect(found).toHaveLength(1)
  expect(hostProcesses().some(({ argv }) => argv.trim() === `sleep ${length}`)).toBe(false)
  return found[0] ?? { pid: 0, argv: '', uid: Number.NaN }
}

export async function hasOwnKernel(backend: Backend, subject: Subject): Promise<boolean> {
  return subject.hasOwnKernel ?? (await backend.probe()).kernel === 'own'
}

/** The process on the host, once the shell that started it has become it. */
async function sleeper(length: number): Promise<HostProcess> {
  const find = () => hostProcesses().find(({ argv }) => argv.trim() === `sleep ${length}`)
  await until('the program runs', () => find() !== undefined)
  return find() ?? { pid: 0, argv: '', uid: Number.NaN }
}
