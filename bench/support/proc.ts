// Memory of processes and of their cgroups, as the kernel counts it.
import { readdir, readFile } from 'node:fs/promises'

const MIB = 1024 * 1024

/** Memory that would be free if the process ended: pages that it alone maps. */
export async function privateMib(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8')
  const kib = [...text.matchAll(/^Private_\w+:\s+(\d+) kB$/gm)].reduce((sum, [, value]) => sum + Number(value), 0)
  return kib / 1024
}

/** Every process below this one. */
export async function descendants(pid: number): Promise<number[]> {
  const children = Map.groupBy(await parents(), ([, parent]) => parent)
  const below = (of: number): number[] => (children.get(of) ?? []).flatMap(([child]) => [child, ...below(child)])
  return below(pid)
}

async function parents(): Promise<[number, number][]> {
  const found = await eachProcess(async pid => {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
    // The name is in brackets and may hold anything; state and parent follow the last bracket.
    return [pid, Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])] as [number, number]
  })
  return found
}

/** A process that ends while /proc is read is left out. */
async function eachProcess<T>(look: (pid: number) => Promise<T>): Promise<T[]> {
  const pids = (await readdir('/proc')).filter(name => /^\d+$/.test(name)).map(Number)
  const looks = await Promise.allSettled(pids.map(look))
  return looks.filter(result => result.status === 'fulfilled').map(result => result.value)
}

/** Processes with this text in their command line. A shim is nobody's child. */
export async function mentioning(text: string): Promise<number[]> {
  const found = await eachProcess(async pid => [pid, await readFile(`/proc/${pid}/cmdline`, 'utf8')] as const)
  return found.filter(([, line]) => line.includes(text)).map(([pid]) => pid)
}

/** The program's file name, or an empty string for a process that ended. */
export async function command(pid: number): Promise<string> {
  return (await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '')).trim()
}

/** Kernel memory charged to the cgroup of a process: stacks, page tables, sockets, mounts. Undefined where the host does not count it. */
export async function kernelMib(pid: number): Promise<number | undefined> {
  const lines = (await readFile(`/proc/${pid}/cgroup`, 'utf8')).trim().split('\n')
  for (const line of lines) {
    const [, controllers = '', path = ''] = /^\d+:([^:]*):(.*)$/.exec(line) ?? []
    if (controllers.split(',').includes('memory')) {
      const bytes = await readFile(`/sys/fs/cgroup/memory${path}/memory.kmem.usage_in_bytes`, 'utf8').catch(notCounted)
      if (bytes !== undefined) return Number(bytes) / MIB
    }
    if (controllers === '') {
      const stat = await readFile(`/sys/fs/cgroup${path}/memory.stat`, 'utf8').catch(notCounted)
      const kernel = /^kernel (\d+)$/m.exec(stat ?? '')?.[1]
      if (kernel !== undefined) return Number(kernel) / MIB
    }
  }
  return undefined
}

/** A file that this kernel does not have. */
function notCounted(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
}
