// One start of a machine: write its record, create the container, start the runner in it, check the limits, and undo everything on failure.
import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import type Docker from 'dockerode'
import type { MachineSpec, Probe } from '../backend.ts'
import type { SeccompProfile } from '../isolation/seccomp.ts'
import { newEgressToken } from '../machine/egress-endpoint.ts'
import { acceptedUnenforced } from '../machine/refusals.ts'
import { keepLogAlone } from '../machine/session-folders.ts'
import type { BootLogs } from './boot-log.ts'
import { type ContainerInfo, containersOf, killContainer, removeContainer } from './container/containers.ts'
import { missingLimits } from './container/limits.ts'
import { containerOptions, stdinConfig } from './container/options.ts'
import { startRunner } from './container/start-runner.ts'
import { ignoreStatus, startFailed, statusOf } from './engine/engine.ts'
import { VOLUMES, volumeName } from './engine/names.ts'
import type { PackageVolumes } from './images/package-volumes.ts'
import type { RootImages } from './images/root-images.ts'
import type { RunnerVolume } from './images/runner-volume.ts'
import { type DockerRecord, readRecord, writeRecord } from './record.ts'

/** What a start needs of the backend. */
export interface StartContext {
  readonly engine: Docker
  readonly owner: string
  readonly probe: Probe
  /** The session's folder. */
  readonly folder: string
  readonly images: RootImages
  readonly runner: RunnerVolume
  readonly packages: PackageVolumes
  readonly seccomp: SeccompProfile
  readonly logs: BootLogs
}

export interface Started {
  readonly container: Docker.Container
  readonly info: ContainerInfo
  readonly record: DockerRecord
}

const START_DEADLINE_MS = 60_000

export async function startMachine(context: StartContext, spec: MachineSpec, signal: AbortSignal): Promise<Started> {
  const { engine, folder, probe, logs } = context
  const unenforced = [...acceptedUnenforced('docker', probe, spec.allowUnenforced)]
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(START_DEADLINE_MS)])
  const before = await readRecord(folder)
  const record: DockerRecord = {
    backend: 'docker',
    version: 1,
    id: spec.id,
    name: spec.name,
    token: randomBytes(32).toString('base64url'),
    egressToken: spec.egress ? newEgressToken() : null,
    image: spec.image.kind === 'host' ? 'host' : spec.image.reference,
    runtime: spec.runtime,
    isChecked: false,
    unenforced,
  }
  await writeRecord(folder, record)
  try {
    const container = await replaceContainer(context, spec, deadline)
    const { user } = await context.images.root(engine, spec, deadline)
    const config = stdinConfig(spec, record, user)
    const info = await startRunner(container, { mounts: spec.mounts, config }, text => logs.add(spec.id, text), deadline)
    const checked = { ...record, isChecked: true, unenforced: await missingLimits(container, info, spec, probe) }
    await writeRecord(folder, checked)
    return { container, info, record: checked }
  } catch (error) {
    await undo(context, spec.id, before, signal).catch(cause => {
      throw startFailed(spec.id, cause)
    })
    signal.throwIfAborted()
    throw startFailed(spec.id, error)
  }
}

/** Removes the containers and volumes of a session from the engine. Idempotent. */
export async function clearEngine(engine: Docker, owner: string, id: string): Promise<void> {
  for (const container of await containersOf(engine, owner, id)) await removeContainer(container)
  for (const what of VOLUMES) await ignoreStatus(engine.getVolume(volumeName(id, what)).remove({ force: true }), 404)
}

async function undo(
  { engine, owner, folder, logs }: StartContext,
  id: string,
  before: DockerRecord | null,
  { aborted }: AbortSignal,
): Promise<void> {
  for (const container of await containersOf(engine, owner, id)) await killContainer(container)
  if (before !== null) return await writeRecord(folder, before)
  await clearEngine(engine, owner, id)
  logs.forget(id)
  if (aborted) await rm(folder, { recursive: true, force: true })
  else await keepLogAlone(folder)
}

async function replaceContainer(context: StartContext, spec: MachineSpec, signal: AbortSignal): Promise<Docker.Container> {
  const { engine, owner, images, runner, packages } = context
  const [old] = await Promise.all([
    containersOf(engine, owner, spec.id),
    runner.check(engine),
    packages.check(engine, spec.packages),
  ])
  // One of them may run: the daemon takes a machine for gone while the engine does not answer.
  for (const container of old) await removeContainer(container)
  try {
    return await createContainer(context, spec, signal)
  } catch (error) {
    if (statusOf(error) !== 404) throw error
  }
  // Somebody else has removed the image.
  images.forgetAll()
  return await createContainer(context, spec, signal)
}

async function createContainer(context: StartContext, spec: MachineSpec, signal: AbortSignal): Promise<Docker.Container> {
  const { engine, owner, images, runner, packages, seccomp } = context
  const { image, binds } = await images.root(engine, spec, signal)
  const runnerVolume = await runner.place(engine, image)
  const packageVolumes = await packages.place(engine, image, spec.packages)
  signal.throwIfAborted()
  return await engine.createContainer(containerOptions({ spec, owner, image, binds, runnerVolume, packageVolumes, seccomp }))
}
