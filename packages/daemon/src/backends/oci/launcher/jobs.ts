// What the launcher is asked to do, as data: one start or one end of a machine.
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { MachineSpec } from '../../backend.ts'
import { type CgroupLayout, daemonCgroupFiles, groupsOf, leftGroups, mountsOf, RUNTIME_GROUP } from '../../cgroups/layout.ts'
import type { SeccompProfile } from '../../isolation/seccomp.ts'
import { runnerConfig } from '../../machine/runner-config.ts'
import { SANDBOX_ID } from '../../rootfs/image-users.ts'
import { RUNNER_PATH } from '../../rootfs/sandbox-paths.ts'
import type { OciPaths } from '../paths.ts'
import type { Host } from '../probe.ts'
import type { MachineRecord, MachineState } from '../record.ts'
import { SPARE_DISK } from '../rootfs/disks.ts'
import { hostFolders } from '../rootfs/host-folders.ts'
import type { Rootfs } from '../rootfs/root-images.ts'
import { ociBundle } from '../runtime/bundle.ts'
import { processLimit, runtimeProfile } from '../runtime/profile.ts'
import { type IdRange, outsideId } from '../users/id-ranges.ts'

/** gVisor is in the machine's cgroups already. Files are the session's disk and no copy of it. The one socket that it makes on the host is the runner's. */
const RUNSC = ['--ignore-cgroups', '--network=none', '--overlay2=none', '--host-uds=create', '--oci-seccomp']

/** On the session's disk. A new one at every start, as a boot would have. */
const BOOT_ID = 'etc/boot_id'

export interface StartInput {
  readonly spec: MachineSpec
  readonly record: MachineRecord
  readonly rootfs: Rootfs
  readonly runnerFile: string
  /** An empty disk to copy, or null for a disk in memory. */
  readonly emptyDisk: string | null
  /** Files kept from the last run of a disk in memory. */
  readonly kept: string | null
  readonly seccomp: SeccompProfile
  readonly compiledSeccomp: Buffer | null
  /** The launcher is to say what the runtime compiled the profile to. */
  readonly wantFilter: boolean
}

/** The argv of a runtime that keeps records, up to its sub-command. */
export function runtimeArgv(host: Host, paths: OciPaths): string[] {
  return [host.runtime, ...runtimeOptions(host), '--root', paths.runtimeRoot]
}

/**
 * What a launcher does ahead of any start: it enters the groups that will be the machine's, starts the runtime there, mounts an empty disk that may
 * become the machine's, and makes a user namespace with the ids that are next.
 */
export function preparation(host: Host, paths: OciPaths, group: string, emptyDisk: string | null, slot: number | null): object {
  const { cgroups, bornInGroups } = host
  return {
    groups: cgroups === null ? [] : groupsOf(cgroups, paths.cgroupParent, group, null, bornInGroups),
    runtime: isStartedAhead(host) ? runtimeAhead(host, paths, group) : null,
    ids: slot === null ? [] : host.pool.ranges(slot),
    home: cgroups === null || !bornInGroups ? [] : daemonCgroupFiles(cgroups),
    disk: emptyDisk === null ? null : { template: emptyDisk, image: spareDisk(paths, group), target: paths.spareMount },
  }
}

export function startJob(host: Host, paths: OciPaths, input: StartInput): object {
  const { spec, record } = input
  const ids = host.pool.ranges(record.slot)
  const { cgroups } = host
  const ownGroup =
    !host.bornInGroups && cgroups !== null ? `${cgroups.prefix}/${paths.cgroupParent}/${record.group}/${RUNTIME_GROUP}` : null
  // runc takes no compiled filter: the runner installs it, before it serves.
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
    cgroupsPath: ownGroup,
    seccomp: inRunner === null ? input.seccomp : null,
    compiledSeccomp: inRunner === null ? input.compiledSeccomp : null,
  })
  const layers = layersOf(host, paths, input)
  return {
    start: {
      id: spec.id,
      runtime: isStartedAhead(host) ? null : runtimeAtStart(host, paths, spec.id, record.group, profile.options),
      want_filter: input.wantFilter,
      folder: paths.session(spec.id),
      record,
      socket: paths.socket(spec.id),
      socket_folder: profile.socketFolder,
      bundle,
      config: {
        ...runnerConfig(spec, record.token, input.rootfs.user),
        loopback: profile.loopback,
        ...(inRunner === null ? {} : { seccomp: inRunner.toString('base64') }),
        ...(host.rootless ? { processes: processLimit(host, spec) } : {}),
      },
      groups: cgroups === null ? [] : groupsOf(cgroups, paths.cgroupParent, record.group, spec, host.bornInGroups),
      disk: {
        image: input.emptyDisk === null ? '' : diskImage(paths, spec.id),
        template: input.emptyDisk ?? '',
        tmpfs_bytes: spec.diskMb * 1024 * 1024,
        restore: input.kept ?? '',
        dirs: diskFolders(ids, layers.length, spec.readonlyRootfs),
        files: [
          { path: 'etc/hosts', content: `127.0.0.1 localhost\n127.0.0.1 ${spec.name}\n` },
          { path: 'etc/hostname', content: `${spec.name}\n` },
          { path: BOOT_ID, content: `${randomUUID()}\n` },
        ],
        shown: shownOnDisk(spec.readonlyRootfs),
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
 * A runtime that is started ahead knows the machine by its group, and its records go with the launcher. Nothing is lost: the machine is found by
 * its cgroups. Where there are none, the runtime's records are the one thing that tells of a machine whose folder is gone.
 */
function isStartedAhead({ kind, cgroups }: Host): boolean {
  return (kind === 'crun' || kind === 'runc') && cgroups !== null
}

function runtimeAhead(host: Host, paths: OciPaths, group: string): object {
  const { cgroups, kind } = host
  return {
    argv: [host.runtime, ...runtimeOptions(host)],
    id: group,
    folder: paths.runtimeMount,
    private: true,
    records: join(paths.runtimeMount, 'records'),
    hide_mounts: host.hiddenMounts,
    // runc has no option to leave cgroups alone. As rootless, it takes no for an answer.
    untouched: kind === 'runc' && host.bornInGroups && cgroups !== null ? mountsOf(cgroups) : [],
    open_files: host.openFiles,
  }
}

function runtimeAtStart(host: Host, paths: OciPaths, id: string, group: string, options: readonly string[]): object {
  const argv = [host.runtime, ...runtimeOptions(host), ...options]
  if (host.kind === 'runsc') return { ...runtimeAhead(host, paths, group), argv, id, verify: true, own_kernel: true }
  return {
    argv,
    id,
    folder: paths.session(id),
    private: false,
    records: paths.runtimeRoot,
    hide_mounts: host.hiddenMounts,
    untouched: [],
    open_files: host.openFiles,
    verify: host.kind === 'other',
  }
}

function runtimeOptions({ kind, bornInGroups }: Host): string[] {
  if (kind === 'crun') return ['--cgroup-manager=disabled']
  if (kind === 'runsc') return RUNSC
  return kind === 'runc' && bornInGroups ? ['--rootless=true'] : []
}

/** What is known of a host even if nothing can be started there. */
export interface EndHost {
  /** The runtime's argv; empty for none. */
  readonly runtime: readonly string[]
  readonly cgroups: CgroupLayout | null
  readonly hiddenMounts: readonly string[]
}

/** Ends every process in these groups, and removes them. */
export function sweepJob(layout: CgroupLayout, paths: OciPaths, names: readonly string[]): object {
  return { sweep: { groups: names.flatMap(name => leftGroups(layout, paths.cgroupParent, name)) } }
}

/** Ends whatever may be left of a machine. `keepFiles`: a disk in memory is written to the session's folder first. */
export function endJob(
  host: EndHost,
  paths: OciPaths,
  id: string,
  record: MachineRecord | null,
  state: MachineState | null,
  keepFiles: boolean,
): object {
  return {
    end: {
      id,
      runtime: record?.runtime ?? host.runtime,
      records: join(paths.runtimeRoot, id),
      folder: paths.session(id),
      socket: paths.socket(id),
      socket_folder: paths.socketFolder(id),
      state,
      groups: host.cgroups === null || record === null ? [] : leftGroups(host.cgroups, paths.cgroupParent, record.group),
      hide_mounts: record?.hiddenMounts ?? host.hiddenMounts,
      image: diskImage(paths, id),
      keep: keepFiles ? keptFiles(paths, id) : '',
      shown: shownOnDisk(true),
    },
  }
}

/** True when something of an earlier run that was not ended is still there. */
export function hasLeft(host: Host, paths: OciPaths, record: MachineRecord): boolean {
  const groups = host.cgroups === null ? [] : leftGroups(host.cgroups, paths.cgroupParent, record.group)
  return [join(paths.runtimeRoot, record.id), ...groups.map(group => group.dir)].some(path => existsSync(path))
}

/** Where a launcher makes the disk that waits with it. */
export function spareDisk(paths: OciPaths, group: string): string {
  return join(paths.disks, `${SPARE_DISK}${group}.ext4`)
}

export function diskImage(paths: OciPaths, id: string): string {
  return join(paths.session(id), 'disk.ext4')
}

export function keptFiles(paths: OciPaths, id: string): string {
  return join(paths.session(id), 'disk.tar')
}

function layersOf(host: Host, paths: OciPaths, input: StartInput): object[] {
  const runner = { source: dirname(input.runnerFile), target: dirname(RUNNER_PATH), recursive: false, writable: false }
  return [...input.rootfs.layers, runner].map((layer, i) => ({
    source: layer.source,
    target: layer.target,
    recursive: layer.recursive,
    ...('stack' in layer ? { stack: layer.stack } : {}),
    ...(host.privateLayers ? { empty: paths.empty } : {}),
    ...(layer.writable && !input.spec.readonlyRootfs ? { upper: `upper/${i}`, work: `work/${i}` } : {}),
  }))
}

function diskFolders(ids: readonly IdRange[], layers: number, readonlyRootfs: boolean): object[] {
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

function shownOnDisk(readonlyRootfs: boolean): object[] {
  return [
    { path: 'workspace', target: '/workspace', readonly: false, folder: true },
    { path: 'home', target: '/home/sandbox', readonly: false, folder: true },
    { path: 'etc/hosts', target: '/etc/hosts', readonly: readonlyRootfs },
    { path: 'etc/hostname', target: '/etc/hostname', readonly: readonlyRootfs },
  ]
}
