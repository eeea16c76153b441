// One container of a session.
import { readFile } from 'node:fs/promises'
import type { Duplex } from 'node:stream'
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import { isMissing } from '../../lib/missing-file.ts'
import type { Epitaph, Machine, MachineLimits } from '../backend.ts'
import { openFilesIn } from '../isolation/open-files.ts'
import { limitEventsOf, NOT_COUNTED, pidsGroupOf } from './container/cgroups.ts'
import { readStats } from './container/read-stats.ts'
import { resize } from './container/resize.ts'
import { attachedStream } from './engine/attached.ts'
import { engineSays, orNull } from './engine/engine.ts'
import { dialLocal, openSocketFolder } from './engine/local-socket.ts'
import type { DockerRecord } from './record.ts'

interface Ends {
  stop(id: string): Promise<void>
  discard(id: string): Promise<void>
}

/** The container as the engine shows it. */
export type Shown = Docker.ContainerInspectInfo

export async function dockerMachine(
  engine: Docker,
  shown: Shown,
  record: DockerRecord,
  ends: Ends,
  onStderr: (text: Buffer) => void,
  isNear: boolean,
): Promise<Machine> {
  const container = engine.getContainer(shown.Id)
  const isLocal = isNear && (await isReachable(shown))
  return {
    id: record.id,
    containerId: shown.Id,
    mux: !isLocal,
    token: record.token,
    unenforced: record.unenforced,
    dial: () => (isLocal ? dialLocal(shown.State.Pid, () => isOf(shown.State.Pid, shown.Id)) : attach(container, onStderr)),
    isRunning: async () =>
      isLocal ? isOf(shown.State.Pid, shown.Id) : ((await orNull(container.inspect()))?.State.Running ?? false),
    stats: async () => readStats(container, isLocal ? (await limitEventsOf(shown.State.Pid)).oomKills : null),
    limitEvents: async () => (isLocal ? await limitEventsOf(shown.State.Pid) : NOT_COUNTED),
    ...(isLocal ? { openFiles: async (withMapped: boolean) => openFilesIn(await pidsGroupOf(shown.State.Pid), withMapped) } : {}),
    epitaph: () => epitaph(container),
    // Another runtime may take limits and forget them.
    ...(record.runtime === null
      ? { resize: (limits: MachineLimits) => resize(container, limits, isLocal ? shown.State.Pid : null) }
      : {}),
    pause: () => freeze(container, true),
    resume: () => freeze(container, false),
    stop: () => ends.stop(record.id),
    destroy: () => ends.discard(record.id),
  }
}

/** A stream to the container's first process. The engine lets go of it when it is closed, and the process does not notice. */
export async function attach(container: Docker.Container, onStderr: (text: Buffer) => void): Promise<Duplex> {
  const attached = await container.attach({ stream: true, hijack: true, stdin: true, stdout: true, stderr: true })
  return attachedStream(attached as Duplex, onStderr)
}

/** It may be so already, by somebody else's hand: engines have several ways to say that. */
async function freeze(container: Docker.Container, isWanted: boolean): Promise<void> {
  try {
    await (isWanted ? container.pause() : container.unpause())
  } catch (error) {
    const shown = await container.inspect().catch(() => null) // what the engine said first is what is told
    if (!shown?.State.Running || shown.State.Paused !== isWanted)
      throw new SandglassError('BACKEND_UNAVAILABLE', { backend: 'docker', why: engineSays(error) }, { cause: error })
  }
}

/** Whether the engine's machine is this one and its processes are ours to look into. */
async function isReachable(shown: Shown): Promise<boolean> {
  if (process.geteuid?.() !== 0 || !shown.State.Pid) return false
  try {
    await using _ = await openSocketFolder(shown.State.Pid)
  } catch {
    return false // the answer: another machine's, or not ours to look into
  }
  return isOf(shown.State.Pid, shown.Id)
}

/** SECURITY: a number may be another process's by now, or one of another namespace's: its cgroup bears the container's id. */
async function isOf(pid: number, containerId: string): Promise<boolean> {
  try {
    return (await readFile(`/proc/${pid}/cgroup`, 'utf8')).includes(containerId)
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

async function epitaph(container: Docker.Container): Promise<Epitaph> {
  let shown: Shown | null
  try {
    shown = await orNull(container.inspect())
  } catch (error) {
    return { limit: null, text: `the container is gone, and the engine does not answer: ${engineSays(error)}` }
  }
  if (shown === null) return { limit: null, text: 'the container was removed behind our back' }
  const { OOMKilled, ExitCode, Error: said } = shown.State
  if (OOMKilled && ExitCode === 137)
    return { limit: 'memory_mb', text: 'the sandbox ran out of memory, and its first process is gone' }
  return { limit: null, text: `the container ended with ${ExitCode}${said ? `: ${said}` : ''}` }
}
