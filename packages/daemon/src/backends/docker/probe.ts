// Probes what the engine can do.
import { existsSync } from 'node:fs'
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import { findProgram } from '../../lib/find-program.ts'
import type { LimitKind, Probe } from '../backend.ts'
import { WITHOUT_QUOTA } from '../limitations.ts'
import { engineMessage, isNoAnswer } from './engine/engine.ts'

/** The fields of `docker info` that are used. Engines omit what they do not know. */
interface EngineInfo {
  readonly ID?: string
  readonly ServerVersion?: string
  readonly OSType?: string
  readonly Architecture?: string
  readonly Driver?: string
  readonly DriverStatus?: readonly (readonly string[])[]
  readonly SecurityOptions?: readonly string[]
  readonly MemoryLimit?: boolean
  readonly SwapLimit?: boolean
  readonly PidsLimit?: boolean
  readonly CpuCfsQuota?: boolean
}

const HAS_SYSTEMD = existsSync('/run/systemd/system')
const START_ENGINE = HAS_SYSTEMD ? 'sudo systemctl start docker' : 'sudo dockerd'
const RESTART_ENGINE = HAS_SYSTEMD ? 'restart it (sudo systemctl restart docker)' : 'restart it'

const ARCHITECTURES: Partial<Record<NodeJS.Architecture, readonly string[]>> = {
  x64: ['x86_64', 'amd64'],
  arm64: ['aarch64', 'arm64'],
}

export async function probeEngine(open: () => Promise<Docker>, endpoint: string): Promise<Probe> {
  let info: EngineInfo
  try {
    info = (await (await open()).info()) as EngineInfo
  } catch (error) {
    if (error instanceof SandglassError && error.is('CONFIG_INVALID'))
      return unavailable(error.detail.issue, 'fix that, or change backends.docker in the configuration')
    const why = isNoAnswer(error) ? engineMessage(error) : `no Docker engine answers at ${endpoint}: ${engineMessage(error)}`
    return unavailable(why, howToFix(error))
  }
  if (info.OSType !== 'linux') return unavailable(`the engine runs ${info.OSType} containers`, 'use an engine for Linux')
  const architectures = ARCHITECTURES[process.arch] ?? []
  if (!architectures.includes(info.Architecture ?? ''))
    return unavailable(
      `the engine has the architecture ${info.Architecture}, and the runner ${process.arch}`,
      'use an engine of this architecture',
    )
  if (!info.SecurityOptions?.some(option => option.includes('seccomp')))
    return unavailable('the engine has no seccomp', 'use a kernel and an engine with seccomp')
  return describe(info)
}

function describe(info: EngineInfo): Probe {
  const unenforceable: LimitKind[] = []
  if (info.CpuCfsQuota === false) unenforceable.push('cpu')
  if (info.MemoryLimit === false || info.SwapLimit === false) unenforceable.push('memory')
  if (info.PidsLimit === false) unenforceable.push('pids')
  // Volumes have no quota, whatever the storage driver.
  unenforceable.push('disk')
  return {
    available: true,
    why: null,
    fix: null,
    detail: `Docker ${info.ServerVersion}`,
    unenforceable,
    unenforceableWhy: WITHOUT_QUOTA,
    unenforceableFix: 'use the oci or microvm backend, which bound the disk of a session',
    weaker: [
      {
        what: 'nobody is root in a sandbox: without a user namespace of its own that would be root on the engine’s machine',
        fix: 'use the oci or microvm backend',
      },
      {
        what: 'sandboxes share one user id on the engine’s machine, and the kernel’s limits per user',
        fix: 'use the oci or microvm backend',
      },
      {
        what: 'with the host image sandboxes share inodes with the host: a sandbox can observe when programs are used, and lock them',
        fix: 'name an image, or use the oci or microvm backend',
      },
    ],
    kernel: 'shared',
  }
}

function howToFix(error: unknown): string {
  const { code } = error as { code?: unknown }
  if (isNoAnswer(error)) return `look at what the engine is doing, or ${RESTART_ENGINE}`
  if (code === 'EACCES') return 'run the daemon as root, or as a member of the group docker'
  if (code === 'ENOENT' && findProgram('dockerd') === null)
    return 'sudo apt-get install -y docker.io, or set backends.docker.api_endpoint'
  return `start the engine (${START_ENGINE}), or set backends.docker.api_endpoint to where it listens`
}

function unavailable(why: string, fix: string): Probe {
  return { available: false, why, fix, detail: '', unenforceable: [], weaker: [], kernel: 'shared' }
}
