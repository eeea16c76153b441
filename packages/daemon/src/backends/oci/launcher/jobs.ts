// Builds the jobs of `launcher oci`: prepare, start, end and sweep.

import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { RUNNER_PATH, SANDBOX_HOME, WORKSPACE } from '@sandglass/contract/tables'
import type { MachineSpec } from '../../backend.ts'
import { type CgroupLayout, daemonCgroupFiles, groupsOf, leftGroups, mountsOf, RUNTIME_GROUP } from '../../cgroups/layout.ts'
import type { SeccompProfile } from '../../isolation/seccomp.ts'
import type { Bind, DiskFolder, Layer, OciJob, Preparation, RuntimePlan } from '../../launcher/schema.ts'
import { egressSocket } from '../../machine/egress-endpoint.ts'
import { runnerConfig } from '../../machine/runner-config.ts'
import { SANDBOX_ID } from '../../rootfs/image-users.ts'
import type { OciPaths } from '../paths.ts'
import type { Host } from '../probe.ts'
import type { MachineRecord, MachineState } from '../record.ts'
import { SPARE_DISK } from '../rootfs/disks.ts'
import { hostFolders } from '../rootfs/host-folders.ts'
import type { Rootfs } from '../rootfs/root-images.ts'
import { ociBundle } from '../runtime/bundle.ts'
import { processLimit, runtimeProfile } from '../runtime/profile.ts'
import { type IdRange, outsideId } from '../users/id-ranges.ts'

/** gVisor is started in the machine's cgroups, writes to the session's disk itself, and may make sockets on the host: the runner's. */
const RUNSC = ['--ignore-cgroups', '--network=none', '--overlay2=none', '--host-uds=create', '--oci-seccomp']

/** File on the session's disk. It is new at every start, as after a boot. */
const BOOT_ID = 'etc/boot_id'

export interface StartInput {
  readonly spec: MachineSpec
  readonly record: MachineRecord
  readonly rootfs: Rootfs
  readonly runnerFile: string
  /** An empty disk to copy, or null for a disk in memory. */
  readonly emptyDisk: string | null
  /** Tar with the saved files of a disk in memory. */
  readonly saved: string | null
  readonly seccomp: SeccompProfile
  readonly compiledSeccomp: Buffer | null
  /** The result should have the seccomp program that the runtime compiled. */
  readonly wantFilter: boolean
}

/** The argv of a runtime with its records in the data folder, up to its sub-command. */
export function runtimeArgv(host: Host, paths: OciPaths): string[] {
  return [host.runtime, ...runtimeOptions(host), '--root', paths.runtimeRoot]
}

/**
 * What a launcher does before it knows the session: it enters the cgroups of the machine, starts the runtime there, mounts an empty disk, and
 * makes a user namespace with the ids of the next free slot.
 */
export function preparation(
  host: Host,
  paths: OciPaths,
  group: string,
  emptyDisk: string | null,
  slot: number | null,
): Preparation {
  const { cgroups, startsInCgroups } = host
  return {
    groups: cgroups === null ? [] : groupsOf(cgroups, paths.cgroupParent, group, null, startsInCgroups),
    runtime: isPrepared(host) ? preparedRuntime(host, paths, group) : null,
    ids: slot === null ? [] : host.pool.ranges(slot),
    home: cgroups === null || !startsInCgroups ? [] : daemonCgroupFiles(cgroups),
    disk: emptyDisk === null ? null : { template: emptyDisk, image: spareDisk(paths, group), target: paths.spareMount },
  }
}

export function startJob(host: Host, paths: OciPaths, input: StartInput): OciJob {
  const { spec, record } = input
  const ids = host.pool.ranges(record.slot)
  const { cgroups } = host
  const ownGroup =
    !host.startsInCgroups && cgroups !== null ? `${cgroups.prefix}/${paths.cgroupParent}/${record.group}/${RUNTIME_GROUP}` : null
  // runc takes no compiled filter: the runner installs it before it serves.
  const inRunner = host.kind === 'runc' ? input.compiledSeccomp : null
  const profile = runtimeProfile(host, paths, spec, ids)
  const bundle = ociBundle({
    hostname: spec.name,
    rootfs: host.stage,
    args: profile.args,
    rlimits: profile.bundleRlimits,
    users: profile.users,
    ids,
    memoryMb: spec.memoryMb,
    isBuild: spec.isBuild ?? false,
    cgroupsPath: ownGroup,
    seccomp: inRunner === null ? input.seccomp : null,
    compiledSeccomp: inRunner === null ? input.compiledSeccomp : null,
  })
  const layers = layersOf(host, paths, input)
  return {
    start: {
      id: spec.id,
      runtime: isPrepared(host) ? null : runtimeAtStart(host, paths, spec.id, record.group, profile.options),
      want_filter: input.wantFilter,
      folder: paths.session(spec.id),
      record,
      socket: paths.socket(spec.id),
      egress_socket: spec.egress ? egressSocket(paths.dataDir, paths.egressSocket(spec.id)) : null,
      socket_folder: profile.socketFolder,
      bundle,
      config: {
        ...runnerConfig(spec, record, input.rootfs.user),
        loopback: profile.loopback,
        ...(inRunner === null ? {} : { seccomp: inRunner.toString('base64') }),
        ...(host.rootless ? { processes: processLimit(host, spec) } : {}),
      },
      groups: cgroups === null ? [] : groupsOf(cgroups, paths.cgroupParent, record.group, spec, host.startsInCgroups),
      disk: {
        image: input.emptyDisk === null ? '' : diskImage(paths, spec.id),
        template: input.emptyDisk ?? '',
        tmpfs_bytes: spec.diskMb * 1024 * 1024,
        restore: input.saved ?? '',
        dirs: diskFolders(ids, layers.length, spec.readonlyRootfs),
        files: [
          { path: 'etc/hosts', content: `127.0.0.1 localhost\n127.0.0.1 ${spec.name}\n` },
          { path: 'etc/hostname', content: `${spec.name}\n` },
          { path: BOOT_ID, content: `${randomUUID()}\n` },
        ],
        binds: diskBinds(spec.readonlyRootfs, spec.isBuild),
      },
      rootfs: host.stage,
      layers,
      folders: hostFolders(host, spec.mounts, ids),
      ids,
      users: paths.users,
      rlimits: profile.inheritedRlimits,
      boot_id: host.kind === 'runsc' ? '' : BOOT_ID,
    },
  }
}

/**
 * A runtime that is started in the prepare job has the cgroups' name as its id, and its records end with the launcher. They are not needed,
 * because the machine is found by its cgroups. Without cgroups, only the runtime's records can tell of a machine whose folder is gone.
 */
function isPrepared({ kind, cgroups }: Host): boolean {
  return (kind === 'crun' || kind === 'runc') && cgroups !== null
}

function preparedRuntime(host: Host, paths: OciPaths, group: string): RuntimePlan {
  const { cgroups, kind } = host
  return {
    argv: [host.runtime, ...runtimeOptions(host)],
    id: group,
    folder: paths.runtimeMount,
    private: true,
    records: join(paths.runtimeMount, 'records'),
    hide_mounts: [...host.hiddenMounts],
    // runc has no option to leave cgroups alone. With --rootless it ignores that they are read-only.
    protected: kind === 'runc' && host.startsInCgroups && cgroups !== null ? mountsOf(cgroups) : [],
    open_files: host.openFiles,
    verify: false,
    own_kernel: false,
  }
}

function runtimeAtStart(host: Host, paths: OciPaths, id: string, group: string, options: readonly string[]): RuntimePlan {
  const argv = [host.runtime, ...runtimeOptions(host), ...options]
  if (host.kind === 'runsc') return { ...preparedRuntime(host, paths, group), argv, id, verify: true, own_kernel: true }
  return {
    argv,
    id,
    folder: paths.session(id),
    private: false,
    records: paths.runtimeRoot,
    hide_mounts: [...host.hiddenMounts],
    protected: [],
    open_files: host.openFiles,
    verify: host.kind === 'other',
    own_kernel: false,
  }
}

function runtimeOptions({ kind, startsInCgroups }: Host): string[] {
  if (kind === 'crun') return ['--cgroup-manager=disabled']
  if (kind === 'runsc') return RUNSC
  return kind === 'runc' && startsInCgroups ? ['--rootless=true'] : []
}

/** The part of a host that is known even if nothing can be started there. */
export interface EndHost {
  /** The runtime's argv; empty for none. */
  readonly runtime: readonly string[]
  readonly cgroups: CgroupLayout | null
  readonly hiddenMounts: readonly string[]
}

/** Kills every process in these cgroups and removes the cgroups. */
export function sweepJob(layout: CgroupLayout, paths: OciPaths, names: readonly string[]): OciJob {
  return { sweep: { groups: names.flatMap(name => leftGroups(layout, paths.cgroupParent, name)) } }
}

/** Ends a machine and removes what may be left of it. `saveFiles`: the files of a disk in memory are saved to the session's folder first. */
export function endJob(
  host: EndHost,
  paths: OciPaths,
  id: string,
  record: MachineRecord | null,
  state: MachineState | null,
  saveFiles: boolean,
): OciJob {
  return {
    end: {
      id,
      runtime: record?.runtime ?? host.runtime,
      records: join(paths.runtimeRoot, id),
      folder: paths.session(id),
      socket: paths.socket(id),
      egress_socket: paths.egressSocket(id),
      socket_folder: paths.socketFolder(id),
      state,
      groups: host.cgroups === null || record === null ? [] : leftGroups(host.cgroups, paths.cgroupParent, record.group),
      hide_mounts: record?.hiddenMounts ?? host.hiddenMounts,
      image: diskImage(paths, id),
      save_to: saveFiles ? savedFiles(paths, id) : '',
      binds: diskBinds(true),
    },
  }
}

/** True if something is left of an earlier run that was not ended. */
export function hasLeft(host: Host, paths: OciPaths, record: MachineRecord): boolean {
  const groups = host.cgroups === null ? [] : leftGroups(host.cgroups, paths.cgroupParent, record.group)
  return [join(paths.runtimeRoot, record.id), ...groups.map(group => group.dir)].some(path => existsSync(path))
}

/** The empty disk that a prepared launcher makes. */
export function spareDisk(paths: OciPaths, group: string): string {
  return join(paths.disks, `${SPARE_DISK}${group}.ext4`)
}

export function diskImage(paths: OciPaths, id: string): string {
  return join(paths.session(id), 'disk.ext4')
}

export function savedFiles(paths: OciPaths, id: string): string {
  return join(paths.session(id), 'disk.tar')
}

function layersOf(host: Host, paths: OciPaths, input: StartInput): Layer[] {
  const runner = { source: dirname(input.runnerFile), target: dirname(RUNNER_PATH), recursive: false, writable: false }
  const packages = input.spec.packages.map(({ folder, target }) => ({
    source: folder,
    target,
    recursive: false,
    writable: false,
  }))
  return [...input.rootfs.layers, runner, ...packages].map((layer, i) => ({
    source: layer.source,
    target: layer.target,
    recursive: layer.recursive,
    ...('stack' in layer ? { stack: layer.stack } : {}),
    ...(host.privateLayers ? { empty: paths.empty } : {}),
    ...(layer.writable && !input.spec.readonlyRootfs ? { upper: `upper/${i}`, work: `work/${i}` } : {}),
  }))
}

function diskFolders(ids: readonly IdRange[], layers: number, readonlyRootfs: boolean): DiskFolder[] {
  const [root, user] = [outsideId(ids, 0), outsideId(ids, SANDBOX_ID)]
  const own = (path: string, id: number, mode: number) => ({ path, uid: id, gid: id, mode })
  const folders = [own('workspace', user, 0o755), own('home', user, 0o750), own('etc', root, 0o755)]
  if (readonlyRootfs) return folders
  const numbers = Array.from({ length: layers }, (_, i) => i)
  return [
    ...folders,
    own('upper', root, 0o755),
    own('work', root, 0o755),
    ...numbers.flatMap(i => [own(`upper/${i}`, root, 0o755), own(`work/${i}`, root, 0o755)]),
  ]
}

function diskBinds(readonlyRootfs: boolean, isBuild = false): Bind[] {
  const ofSession = [
    { path: 'workspace', target: WORKSPACE, readonly: false, saved: true },
    { path: 'home', target: SANDBOX_HOME, readonly: false, saved: true },
  ]
  return [
    ...(isBuild ? [] : ofSession),
    { path: 'etc/hosts', target: '/etc/hosts', readonly: readonlyRootfs, saved: false },
    { path: 'etc/hostname', target: '/etc/hostname', readonly: readonlyRootfs, saved: false },
  ]
}
