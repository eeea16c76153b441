// The OCI runtimes that machines can be started with: crun, runc, and those that the configuration names.
import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { isAbsolute } from 'node:path'
import { promisify } from 'node:util'
import { SandglassError } from '@sandglass/contract/tables'
import { findProgram } from '../../../lib/find-program.ts'
import type { RuntimeReport } from '../../backend.ts'
import { type CgroupLayout, readLayout } from '../../cgroups/layout.ts'
import { unsupported } from '../../machine/refusals.ts'

/** A runtime and how it is used on this host. */
export interface Runtime {
  /** Its path. */
  readonly runtime: string
  /** crun and runc are started before their configuration is complete, and their records are discarded. Others get no such shortcuts. */
  readonly kind: 'crun' | 'runc' | 'runsc' | 'kata' | 'other'
  /** The runtime is started inside the machine's cgroups and does not manage cgroups; otherwise it creates its own below. */
  readonly startsInCgroups: boolean
  /** Mounts that the runtime must not see: crun refuses to run while a hybrid host's unified mount shows controllers. */
  readonly hiddenMounts: readonly string[]
}

/** What the daemon can offer to a runtime. */
export interface RuntimeEnvironment {
  readonly rootless: boolean
  readonly cgroups: CgroupLayout | null
}

const KNOWN = ['crun', 'runc']
const VERSION_MS = 10_000
const run = promisify(execFile)

export class Runtimes {
  readonly #wanted: string
  readonly #named: ReadonlyMap<string, string>
  /** By path. Only successful results are kept. */
  readonly #versions = new Map<string, string>()

  /** `wanted` is the default runtime in the configuration: crun, runc, a name in `named`, a path, or auto. `named` has paths by name. */
  constructor(wanted: string, named: Readonly<Record<string, string>>) {
    this.#wanted = wanted
    this.#named = new Map(Object.entries(named))
  }

  /** The paths of all runtimes that sessions can use. */
  paths(): string[] {
    return [this.main(), ...this.#names().map(name => this.#path(name))].filter(path => path !== null)
  }

  /** The path of the default runtime; null when it is not installed. */
  main(): string | null {
    if (isAbsolute(this.#wanted)) return existing(this.#wanted)
    if (this.#wanted === 'auto') return this.#path('crun') ?? this.#path('runc')
    return this.#named.has(this.#wanted) ? this.#path(this.#wanted) : findProgram(this.#wanted)
  }

  /** What the operator has to do when there is no default runtime. */
  missingMain(): { why: string; fix: string } {
    if (this.#wanted === 'auto') return { why: 'neither crun nor runc is installed', fix: install('crun') }
    const fix = KNOWN.includes(this.#wanted) && !this.#named.has(this.#wanted) ? install(this.#wanted) : install('crun')
    return { why: `the OCI runtime ${this.#named.get(this.#wanted) ?? this.#wanted} is not installed`, fix }
  }

  /**
   * The runtime that a session asks for. SECURITY: the name comes from the user. It is looked up in a list and never becomes part of a path.
   */
  async asked(name: string, cgroups: CgroupLayout | null): Promise<Runtime> {
    if (!this.#names().includes(name)) {
      throw unsupported(
        `the OCI runtime ${JSON.stringify(name)}: there are ${this.#names().join(', ')}`,
        'use one of them, or add yours to backends.oci.runtimes in the configuration',
      )
    }
    const path = this.#path(name)
    const version = path === null ? null : await this.version(path)
    if (path !== null && version !== null) return runtimeUse(path, version, cgroups)
    const { why, fix } = this.#missing(name)
    throw new SandglassError('BACKEND_UNAVAILABLE', { backend: 'oci', why: `${why}; ${fix}` })
  }

  /** All other runtimes that can be executed. */
  async others({ runtime, cgroups }: { runtime: string; cgroups: CgroupLayout | null }): Promise<Runtime[]> {
    const paths = [...new Set(this.paths())].filter(path => path !== runtime)
    const found = await Promise.all(paths.map(async path => [path, await this.version(path)] as const))
    return found.flatMap(([path, version]) => (version === null ? [] : [runtimeUse(path, version, cgroups)]))
  }

  /** The first line of its `--version` output; null when it cannot be executed. */
  async version(path: string): Promise<string | null> {
    const known = this.#versions.get(path)
    if (known !== undefined) return known
    try {
      const { stdout } = await run(path, ['--version'], { timeout: VERSION_MS })
      const version = stdout.split('\n')[0] || path
      this.#versions.set(path, version)
      return version
    } catch (error) {
      if (error instanceof Error) return null
      throw error
    }
  }

  /** All runtimes that are installed or named in the configuration. */
  async report(environment: RuntimeEnvironment | null): Promise<RuntimeReport[]> {
    const wanted = this.#names().filter(name => this.#named.has(name) || this.#path(name) !== null)
    return await Promise.all(
      wanted.map(async name => {
        const path = this.#path(name)
        const version = path === null ? null : await this.version(path)
        if (path === null || version === null) return { name, version: null, ...this.#missing(name) }
        const problem = environment && runtimeProblem(runtimeUse(path, version, environment.cgroups), version, environment)
        return problem ? { name, version: null, ...problem } : { name, version, why: null, fix: null }
      }),
    )
  }

  #names(): string[] {
    return [...new Set([...KNOWN, ...this.#named.keys()])]
  }

  #path(name: string): string | null {
    const named = this.#named.get(name)
    if (named !== undefined) return existing(named)
    return KNOWN.includes(name) ? findProgram(name) : null
  }

  #missing(name: string): { why: string; fix: string } {
    const named = this.#named.get(name)
    if (named === undefined) return { why: `the OCI runtime ${name} is not installed, or does not run`, fix: install(name) }
    const why = `the OCI runtime ${name} ${existsSync(named) ? 'does not run' : 'does not exist'}: ${named}`
    return { why, fix: `put it there, or change backends.oci.runtimes.${name}` }
  }
}

const install = (name: string) => `sudo apt-get install -y ${name}`
const existing = (path: string) => (existsSync(path) ? path : null)

/**
 * Why no session on this host can use the runtime, or null. gVisor takes its limits from cgroups, and needs root for its user ids.
 * SECURITY: Kata Containers supports neither a user namespace nor the system call filter, and has no command line since version 2. A sandbox
 * without them would be weaker than this backend promises.
 */
export function runtimeProblem(
  { kind }: Runtime,
  version: string,
  { rootless, cgroups }: RuntimeEnvironment,
): { why: string; fix: string } | null {
  if (kind === 'kata')
    return {
      why: 'Kata Containers works only as a runtime of a Docker engine',
      fix: 'name it in backends.docker.runtimes and use --backend docker; or use --backend microvm',
    }
  if (kind !== 'runsc') return null
  if (rootless) return { why: `${version} cannot be used by an ordinary user`, fix: 'run the daemon as root' }
  if (cgroups !== null) return null
  return { why: `${version} cannot be used without cgroups`, fix: 'mount the controllers writable at /sys/fs/cgroup' }
}

function kindOf(version: string): Runtime['kind'] {
  if (/^(kata-runtime|Kata Containers) /.test(version)) return 'kata'
  const word = version.split(' version ')[0]
  return word === 'crun' || word === 'runc' || word === 'runsc' ? word : 'other'
}

/** How a runtime is used on this host, by its `--version` output. An unknown runtime is used in the way that works with any. */
export function runtimeUse(path: string, version: string, cgroups: CgroupLayout | null): Runtime {
  const kind = kindOf(version)
  const mounted = readLayout(readFileSync('/proc/self/mountinfo', 'utf8'), existsSync)
  return {
    runtime: path,
    kind,
    // On v2 runc restricts devices with a BPF program that it attaches to the cgroup that it creates.
    startsInCgroups: kind === 'crun' || kind === 'runsc' || (kind === 'runc' && cgroups?.version !== 2),
    hiddenMounts: kind === 'crun' && mounted?.version === 1 && mounted.unified !== null ? [mounted.unified] : [],
  }
}
