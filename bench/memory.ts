// Unshared memory of an idle session: its processes' private pages and kernel memory, and its share of what the daemon grew by.
import { LIMITS } from '@sandglass/contract/tables'
import { type Benchmark, type Case, lessIsBetter, type Options } from './support/benchmark.ts'
import { type DockerPeer, startDockerPeer } from './support/docker-peer.ts'
import { command, descendants, kernelMib, mentioning, privateMib } from './support/proc.ts'
import { type Figures, figures, median } from './support/quantiles.ts'
import { type Sandglass, startSandglass } from './support/sandglass.ts'

export const memory: Benchmark = {
  about: 'unshared memory of an idle session with a shell',
  peer: 'a detached container that waits in `sh`, with its shim',
  run: measureMemory,
}

async function measureMemory({ full, withPeer, signal, say }: Options): Promise<Case[]> {
  await using stack = new AsyncDisposableStack()
  const count = full ? 200 : 50
  const sandglass = stack.use(await startSandglass({}, signal))
  say(`${count} sessions`)
  const ours = await measureSessions(sandglass, count, signal)
  if (!withPeer) return [lessIsBetter('idle session', 'MiB', ours, null)]
  const engine = stack.use(await startDockerPeer(say, signal))
  say(`${count} containers`)
  return [lessIsBetter('idle session', 'MiB', ours, await measureContainers(engine, count))]
}

async function measureSessions({ client, pid, machinePid }: Sandglass, count: number, signal: AbortSignal): Promise<Figures> {
  const open = async () => {
    const session = await client.createSession({}, { signal })
    await session.exec('true', { signal })
    return session.id
  }
  await open()
  const before = await privateMib(pid)
  const ids: string[] = []
  for (let i = 0; i < count; i++) ids.push(await open())
  const growth = ((await privateMib(pid)) - before) / count
  const sessions: Unshared[] = []
  for (const id of ids) {
    const runner = await machinePid(id)
    sessions.push(await unshared([runner, ...(await descendants(runner))]))
  }
  return summary(sessions, growth)
}

async function measureContainers(engine: DockerPeer, count: number): Promise<Figures> {
  const open = () => engine.container({ cpuCores: LIMITS.cpu_cores.default, readonly: true, flags: ['--interactive'] }, 'sh')
  await open()
  const daemons = await named(await descendants(engine.pid), ['dockerd', 'containerd'])
  const shimsNow = async () => await named(await mentioning(engine.folder), ['containerd-shim'])
  const known = new Set(await shimsNow())
  const before = await total(daemons)
  for (let i = 0; i < count; i++) await open()
  const growth = ((await total(daemons)) - before) / count
  const shims = (await shimsNow()).filter(pid => !known.has(pid))
  const containers: Unshared[] = []
  for (const shim of shims) containers.push(await unshared([shim, ...(await descendants(shim))]))
  if (containers.length !== count) throw new Error(`found ${containers.length} shims of ${count} containers`)
  return summary(containers, growth)
}

interface Unshared {
  readonly processesMib: number
  readonly kernelMib: number
}

/** The shim itself is outside the container's cgroup; what it started last is inside. */
async function unshared(pids: readonly number[]): Promise<Unshared> {
  const last = pids.at(-1)
  if (last === undefined || pids.length < 2) throw new Error(`${pids.length} processes where a shell and its parent should be`)
  return { processesMib: await total(pids), kernelMib: (await kernelMib(last)) ?? 0 }
}

function summary(machines: readonly Unshared[], growth: number): Figures {
  const mib = (value: number) => Number(value.toFixed(3))
  return figures(
    machines.map(machine => machine.processesMib + machine.kernelMib + growth),
    {
      processes_mib: mib(median(machines.map(machine => machine.processesMib))),
      kernel_mib: mib(median(machines.map(machine => machine.kernelMib))),
      daemon_growth_mib: mib(growth),
    },
  )
}

async function total(pids: readonly number[]): Promise<number> {
  const each = await Promise.all(pids.map(privateMib))
  return each.reduce((sum, value) => sum + value, 0)
}

/** The kernel keeps 15 characters of a name. */
async function named(pids: readonly number[], names: readonly string[]): Promise<number[]> {
  const commands = await Promise.all(pids.map(command))
  return pids.filter((_, at) => names.includes(commands[at] ?? ''))
}
