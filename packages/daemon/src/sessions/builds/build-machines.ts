// Machines for the steps of image builds. A build machine is no session: it has no row, so the next daemon removes it as an orphan if this one is
// killed. Its network is that of a session with the policies of the configuration.
import { newId, SandglassError } from '@sandglass/contract'
import { openLink, type RunnerLink } from '@sandglass/runner-link/link'
import { z } from 'zod'
import type { Backend, LayeredImage, Machine, MachineSpec, TrustedCa } from '../../backends/backend.ts'
import type { LayerMaker } from '../../backends/image-builds.ts'
import { endpointForEgress } from '../../backends/machine/egress-endpoint.ts'
import { allowedUnenforced } from '../../config/allowed-unenforced.ts'
import { logFolderInside, makeLogFolder, removeLogFolder } from '../../egress/folders.ts'
import type { BuildMachine, BuildMachines, StepProgram } from '../../images/build/session/build-machine.ts'
import { resolvePolicies } from '../../policies/named.ts'
import type { SessionContext } from '../context.ts'
import { withDiskSpace } from '../placement/admission.ts'

const NAME = 'build'
/** Package managers and compilers start many threads. */
const PIDS_LIMIT = 2048
const MAX_EXIT_CODE = 255

export function buildMachines(context: SessionContext): BuildMachines {
  return {
    async layers() {
      const { layers } = await backendFor(context)
      await layers.check()
      return layers
    },
    start: (image, signal) => start(context, image, signal),
  }
}

type Capable = Backend & { readonly layers: LayerMaker }

async function backendFor({ backends }: SessionContext): Promise<Capable> {
  let why = 'no backend here can run them'
  for (const backend of backends.values()) {
    if (!backend.layers) continue
    const probe = await backend.probe()
    if (probe.available) return backend as Capable
    why = `${probe.why}; ${probe.fix}`
  }
  throw new SandglassError('BACKEND_UNAVAILABLE', { backend: 'oci', why: `build steps need sandboxes: ${why}` })
}

async function start(context: SessionContext, image: LayeredImage, signal: AbortSignal): Promise<BuildMachine> {
  const backend = await backendFor(context)
  const id = newId('sess_')
  const hasEgress = context.config.images.build_network !== 'none'
  const trust = hasEgress ? await context.egress.authorities.current() : null
  const spec = machineSpec(context, backend, id, image, trust)
  await backend.prepare(spec, signal)
  // Until it is removed, the egress process must not take it for a session that has ended.
  const aborted = new AbortController()
  context.starting.set(id, aborted)
  let machine: Machine | undefined
  let link: RunnerLink | undefined
  const destroy = async () => {
    link?.close()
    if (hasEgress) await leaveEgress(context, id)
    context.starting.delete(id)
    await (machine?.destroy() ?? backend.discard(id))
  }
  try {
    const space = { id, backend: backend.name, disk_mb: spec.diskMb }
    machine = await withDiskSpace(context, space, () => backend.start(spec, AbortSignal.any([signal, aborted.signal])))
    link = openLink(machine)
    await link.connect()
    if (hasEgress && trust) await joinEgress(context, machine, trust)
    return buildMachine(machine, link, trust, destroy)
  } catch (error) {
    await destroy()
    throw error
  }
}

function machineSpec(
  { config }: SessionContext,
  backend: Backend,
  id: string,
  image: LayeredImage,
  trust: TrustedCa | null,
): MachineSpec {
  const { build_memory_mb, build_cpu_cores, build_disk_mb } = config.images
  return {
    id,
    name: NAME,
    image,
    trust: trust && { fingerprint: trust.fingerprint, certificate: trust.certificate },
    cpuCores: build_cpu_cores,
    memoryMb: build_memory_mb,
    diskMb: build_disk_mb,
    pidsLimit: PIDS_LIMIT,
    readonlyRootfs: false,
    runtime: null,
    network: 'none',
    egress: trust !== null,
    mounts: [],
    nestedVirt: false,
    canPause: false,
    persist: false,
    isBuild: true,
    packages: [],
    env: {},
    allowUnenforced: allowedUnenforced(config, backend.name),
  }
}

async function joinEgress(context: SessionContext, { id, egress }: Machine, trust: TrustedCa): Promise<void> {
  if (egress === null) throw new SandglassError('EGRESS_UNAVAILABLE', { why: 'the build machine was started without egress' })
  const policies = await resolvePolicies(context.store, context.config.images.build_policies)
  await context.egress.mutex.run(id, async () => {
    await makeLogFolder(context.dataDir, id)
    await context.egress.supervisor.putSession({
      id,
      name: NAME,
      endpoint: endpointForEgress(context.dataDir, egress.endpoint),
      token: egress.token,
      network: 'allowlist',
      mode: null,
      policies,
      secrets: [],
      ca: trust.fingerprint,
      logFolder: logFolderInside(id),
    })
  })
}

async function leaveEgress(context: SessionContext, id: string): Promise<void> {
  const { egress, dataDir, log } = context
  await egress.mutex.run(id, async () => {
    try {
      await egress.supervisor.removeSession(id)
      await removeLogFolder(dataDir, id)
    } catch (err) {
      log.warn({ err, sessionId: id }, 'build machine could not be removed from the egress process')
    }
  })
}

function buildMachine(machine: Machine, link: RunnerLink, trust: TrustedCa | null, destroy: () => Promise<void>): BuildMachine {
  return {
    id: machine.id,
    trust,
    run: (program, onOutput, signal) => run(link, machine.id, program, onOutput, signal),
    async limitHit() {
      const { oomKills, pidRefusals } = await machine.limitEvents()
      if ((oomKills ?? 0) > 0) return 'it ran out of memory: images.build_memory_mb in the configuration is its limit'
      return (pidRefusals ?? 0) > 0 ? `it reached the limit of ${PIDS_LIMIT} processes` : null
    },
    async stop() {
      link.close()
      await machine.stop()
    },
    destroy,
  }
}

const Started = z.object({ pid: z.int() })
const Exit = z.object({ exit_code: z.int().min(0).max(MAX_EXIT_CODE) })

/** SECURITY: the runner shares a machine with hostile code, so that its replies are parsed. */
async function run(
  link: RunnerLink,
  id: string,
  { argv, cwd, env }: StepProgram,
  onOutput: (bytes: Buffer) => void,
  signal: AbortSignal,
): Promise<number> {
  const fields = { argv, cwd, env, user: 'root', hold_output: true }
  const { message } = await link.request('process.start', fields, { signal })
  const { pid } = Started.parse(message.process)
  const stream = await link.stream('process.attach', { pid }, { signal })
  for await (const { message, body } of stream) {
    if (message.type === 'exit') return Exit.parse(message).exit_code
    for await (const bytes of body) {
      onOutput(Buffer.from(bytes))
      stream.recycle(bytes)
    }
  }
  throw new SandglassError('RUNNER_LOST', { id })
}
