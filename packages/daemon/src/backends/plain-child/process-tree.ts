// The processes of a plain-child machine: descendants of its runner, and orphans with a known variable in their environment.
import { readdir, readFile } from 'node:fs/promises'
import { z } from 'zod'

const END_TIMEOUT_MS = 5_000
const TICKS_PER_SECOND = 100
const PAGE_BYTES = 4096

/** A pid with its start time: the pair is unique until the host reboots. */
export const ProcessId = z.object({ pid: z.int(), startTicks: z.int() })
export type ProcessId = z.infer<typeof ProcessId>

type Marker = Readonly<Record<string, string>>

interface Stat extends ProcessId {
  readonly parent: number
  readonly state: string
  readonly cpuTicks: number
  readonly residentPages: number
}

export async function processId(pid: number): Promise<ProcessId | null> {
  const stat = await readStat(pid)
  return stat && { pid, startTicks: stat.startTicks }
}

export async function isAlive(id: ProcessId): Promise<boolean> {
  const stat = await readStat(id.pid)
  return stat !== null && stat.startTicks === id.startTicks && stat.state !== 'Z'
}

/** Repeats until no process is left, because a process may fork during the search. */
export async function endTree(root: ProcessId, marker: Marker): Promise<void> {
  const deadline = Date.now() + END_TIMEOUT_MS
  for (;;) {
    const tree = await findTree(root, marker)
    if (tree.length === 0) return
    if (Date.now() > deadline) throw new Error(`processes do not end: ${tree.map(p => p.pid).join(', ')}`)
    for (const { pid } of tree) signalOne(pid, 'SIGKILL')
    await new Promise(resolve => setTimeout(resolve, 2))
  }
}

export async function signalTree(root: ProcessId, marker: Marker, signal: NodeJS.Signals): Promise<void> {
  for (const { pid } of await findTree(root, marker)) signalOne(pid, signal)
}

/** SIGSTOP takes effect in each thread some time after it is sent. */
export async function waitUntilStopped({ pid }: ProcessId): Promise<void> {
  const deadline = Date.now() + END_TIMEOUT_MS
  const threads = async () => {
    const ids = await readdir(`/proc/${pid}/task`)
    return await Promise.all(ids.map(id => readFile(`/proc/${pid}/task/${id}/stat`, 'utf8')))
  }
  while ((await threads()).some(stat => stat.charAt(stat.lastIndexOf(')') + 2) !== 'T')) {
    if (Date.now() > deadline) throw new Error(`process ${pid} does not stop`)
    await new Promise(resolve => setTimeout(resolve, 2))
  }
}

export async function treeUsage(
  root: ProcessId,
  marker: Marker,
): Promise<{ cpuUsageUsec: number; memoryBytes: number; pids: number }> {
  const tree = await findTree(root, marker)
  const ticks = tree.reduce((sum, p) => sum + p.cpuTicks, 0)
  const pages = tree.reduce((sum, p) => sum + p.residentPages, 0)
  return { cpuUsageUsec: (ticks * 1_000_000) / TICKS_PER_SECOND, memoryBytes: pages * PAGE_BYTES, pids: tree.length }
}

async function findTree(root: ProcessId, marker: Marker): Promise<Stat[]> {
  const pids = (await readdir('/proc')).filter(name => /^\d+$/.test(name)).map(Number)
  const stats = (await Promise.all(pids.map(readStat))).filter(stat => stat !== null).filter(stat => stat.state !== 'Z')
  const marks = Object.entries(marker).map(([name, value]) => `${name}=${value}`)
  const marked = await Promise.all(stats.map(stat => hasMark(stat.pid, marks)))
  const inside = new Set(
    stats.filter((stat, i) => marked[i] || (stat.pid === root.pid && stat.startTicks === root.startTicks)).map(stat => stat.pid),
  )
  for (let size = -1; size !== inside.size; ) {
    size = inside.size
    for (const stat of stats) if (inside.has(stat.parent)) inside.add(stat.pid)
  }
  return stats.filter(stat => inside.has(stat.pid))
}

async function hasMark(pid: number, marks: string[]): Promise<boolean> {
  const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(ignoreGone)
  if (environment === null) return false
  const variables = environment.split('\0')
  return marks.every(mark => variables.includes(mark))
}

async function readStat(pid: number): Promise<Stat | null> {
  const text = await readFile(`/proc/${pid}/stat`, 'latin1').catch(ignoreGone)
  if (text === null) return null
  // The process name before the last ) may contain spaces and parentheses.
  const field = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return {
    pid,
    state: field[0] ?? '',
    parent: Number(field[1]),
    cpuTicks: Number(field[11]) + Number(field[12]),
    startTicks: Number(field[19]),
    residentPages: Number(field[21]),
  }
}

function signalOne(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    ignoreGone(error as NodeJS.ErrnoException)
  }
}

function ignoreGone(error: NodeJS.ErrnoException): null {
  if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes(error.code ?? '')) return null
  throw error
}
