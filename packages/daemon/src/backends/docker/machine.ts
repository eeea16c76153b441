// One container of a session.
import { readFile } from 'node:fs/promises'
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import { isMissing } from '../../lib/missing-file.ts'
import type { Machine, MachineExit, MachineLimits } from '../backend.ts'
import { cgroupOfProcess } from '../cgroups/cgroup.ts'
import { NO_LIMIT_EVENTS, readLimitEvents, readOomKills } from '../cgroups/usage.ts'
import { openFilesIn } from '../isolation/open-files.ts'
import { attach } from './container/attached-stream.ts'
import type { ContainerInfo } from './container/containers.ts'
import { readStats, resize } from './container/limits.ts'
import { dialLocal, openSocketFolder } from './container/local-socket.ts'
import { engineMessage, nullIfNotFound } from './engine/engine.ts'
import type { DockerRecord } from './record.ts'

/** The backend, which serializes what ends a machine with what starts it. */
export interface MachineOwner {
  /** Whether the engine is on the daemon's machine. */
  readonly isLocal: boolean
  log(id: string, stderr: Buffer): Promise<void>
  stop(id: string): Promise<void>
  discard(id: string): Promise<void>
}

export async function dockerMachine(
  container: Docker.Container,
  info: ContainerInfo,
  record: DockerRecord,
  owner: MachineOwner,
): Promise<Machine> {
  const { id, runtime } = record
  const pid = info.State.Pid
  // With another runtime the container may have a kernel of its own, whose processes and sockets are not the host's.
  const isLocal = owner.isLocal && runtime === null && (await isReachable(info))
  const onStderr = (text: Buffer) => void owner.log(id, text)
  return {
    id,
    containerId: info.Id,
    mux: !isLocal,
    token: record.token,
    // Nothing of the host is mounted into a container, and the engine may be on another machine: only the daemon's own link reaches the runner.
    egress: record.egressToken === null ? null : { token: record.egressToken, endpoint: { kind: 'relay' } },
    unenforced: record.unenforced,
    dial: () => (isLocal ? dialLocal(pid, () => isInContainer(pid, info.Id)) : attach(container, onStderr)),
    isRunning: async () =>
      isLocal ? isInContainer(pid, info.Id) : ((await nullIfNotFound(container.inspect()))?.State.Running ?? false),
    stats: async () => readStats(container, isLocal ? await readOomKills(await cgroupOfProcess(pid)) : null),
    limitEvents: async () => (isLocal ? await readLimitEvents(await cgroupOfProcess(pid), pid) : NO_LIMIT_EVENTS),
    ...(isLocal
      ? { openFiles: async (withMapped: boolean) => openFilesIn((await cgroupOfProcess(pid)).dirs.pids ?? '', withMapped) }
      : {}),
    exitReason: () => exitReason(container),
    // Another runtime may accept new limits and ignore them.
    ...(runtime === null ? { resize: (limits: MachineLimits) => resize(container, limits, isLocal ? pid : null) } : {}),
    pause: () => setPaused(container, true),
    resume: () => setPaused(container, false),
    stop: () => owner.stop(id),
    destroy: () => owner.discard(id),
  }
}

/** Somebody else may have paused or resumed the container already. Engines report that in several ways, so its state decides. */
async function setPaused(container: Docker.Container, isPaused: boolean): Promise<void> {
  try {
    await (isPaused ? container.pause() : container.unpause())
  } catch (error) {
    const info = await container.inspect().catch(() => null) // the first error is the one that is thrown
    if (!info?.State.Running || info.State.Paused !== isPaused)
      throw new SandglassError('BACKEND_UNAVAILABLE', { backend: 'docker', why: engineMessage(error) }, { cause: error })
  }
}

/** Whether the container runs on the daemon's machine and the daemon may open its files. */
async function isReachable({ Id, State }: ContainerInfo): Promise<boolean> {
  if (process.geteuid?.() !== 0 || !State.Pid) return false
  try {
    await using _ = await openSocketFolder(State.Pid)
  } catch {
    return false // the answer: the process is on another machine, or the daemon may not open its files
  }
  return isInContainer(State.Pid, Id)
}

/** SECURITY: the pid may have been reused, or belong to another pid namespace. The cgroup of a container's process has the container's id. */
async function isInContainer(pid: number, containerId: string): Promise<boolean> {
  try {
    return (await readFile(`/proc/${pid}/cgroup`, 'utf8')).includes(containerId)
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

async function exitReason(container: Docker.Container): Promise<MachineExit> {
  let info: ContainerInfo | null
  try {
    info = await nullIfNotFound(container.inspect())
  } catch (error) {
    return { limit: null, text: `the container is gone, and the engine does not answer: ${engineMessage(error)}` }
  }
  if (info === null) return { limit: null, text: 'somebody removed the container from the engine' }
  const { OOMKilled, ExitCode, Error: message } = info.State
  if (OOMKilled && ExitCode === 137)
    return { limit: 'memory_mb', text: 'the sandbox ran out of memory, and its first process is gone' }
  return { limit: null, text: `the container ended with ${ExitCode}${message ? `: ${message}` : ''}` }
}
