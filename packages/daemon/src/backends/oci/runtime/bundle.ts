// The config.json of an OCI bundle: namespaces, capabilities, mounts of virtual filesystems. The launcher mounts real files.

import { DEFAULT_PATH, RUNNER_PATH } from '@sandglass/contract/tables'
import { MASKED_PROC, READONLY_PROC } from '../../isolation/hidden-paths.ts'
import type { SeccompProfile } from '../../isolation/seccomp.ts'
import type { IdRange } from '../users/id-ranges.ts'
import type { NamedRlimit } from './rlimits.ts'

export interface BundleInput {
  readonly hostname: string
  readonly rootfs: string
  /** Arguments of the runner. */
  readonly args: readonly string[]
  /** Only for a runtime with its own kernel; with the others the sandbox inherits the limits of the launcher. */
  readonly rlimits: readonly NamedRlimit[]
  /** File of the user namespace to join; null for a runtime that creates one. `ids` is its map. */
  readonly users: string | null
  readonly ids: readonly IdRange[]
  readonly memoryMb: number
  /** /tmp is a part of the image, and not in memory. */
  readonly isBuild: boolean
  /** The cgroup that a runtime creates below the machine's; null for a runtime that is started inside the machine's cgroups. */
  readonly cgroupsPath: string | null
  /** Null when the runner installs the filter itself. */
  readonly seccomp: SeccompProfile | null
  /** The profile compiled by an earlier start. Only crun accepts it. */
  readonly compiledSeccomp: Buffer | null
}

// SECURITY: the capabilities that the runner needs to act for other users of its sandbox. NET_ADMIN and SETPCAP serve to set up the loopback
// interface; the runner drops them before it serves. Programs that it starts as the user sandbox have none of these.
const CAPABILITIES = [
  ...[
    'CAP_CHOWN',
    'CAP_DAC_OVERRIDE',
    'CAP_FOWNER',
    'CAP_FSETID',
    'CAP_KILL',
    'CAP_SETUID',
    'CAP_SETGID',
    'CAP_NET_BIND_SERVICE',
  ],
  ...['CAP_NET_ADMIN', 'CAP_SETPCAP'],
]
const NAMESPACES = ['pid', 'mount', 'network', 'ipc', 'uts', 'cgroup']
/** SECURITY: the host has one pool of terminals; a sandbox may have at most this many of them. */
const TERMINALS = 256

export function ociBundle(input: BundleInput): object {
  const compiled = input.compiledSeccomp
  return {
    ociVersion: '1.0.2',
    hostname: input.hostname,
    root: { path: input.rootfs, readonly: false },
    process: {
      terminal: false,
      user: { uid: 0, gid: 0 },
      cwd: '/',
      args: [RUNNER_PATH, ...input.args],
      env: [`PATH=${DEFAULT_PATH}`],
      noNewPrivileges: true,
      rlimits: input.rlimits,
      capabilities: { bounding: CAPABILITIES, effective: CAPABILITIES, permitted: CAPABILITIES, inheritable: [], ambient: [] },
    },
    mounts: mounts(input),
    // The profile next to the annotation allows no call, so a runtime that does not know the annotation starts nothing.
    ...(compiled === null ? {} : { annotations: { 'run.oci.seccomp_bpf_data': compiled.toString('base64') } }),
    linux: {
      uidMappings: idMappings(input.ids),
      gidMappings: idMappings(input.ids),
      namespaces: [
        ...NAMESPACES.map(type => ({ type })),
        { type: 'user', ...(input.users === null ? {} : { path: input.users }) },
      ],
      ...(input.cgroupsPath === null ? {} : { cgroupsPath: input.cgroupsPath }),
      sysctl: { 'net.ipv4.ip_unprivileged_port_start': '0' },
      ...(input.seccomp === null ? {} : { seccomp: compiled === null ? input.seccomp : { ...input.seccomp, syscalls: [] } }),
      maskedPaths: MASKED_PROC,
      readonlyPaths: READONLY_PROC,
    },
  }
}

function mounts(input: BundleInput): object[] {
  const tmpfs = (destination: string, size: string, mode: string, ...more: string[]) => ({
    destination,
    type: 'tmpfs',
    source: 'tmpfs',
    options: ['nosuid', 'nodev', `size=${size}`, `mode=${mode}`, ...more],
  })
  return [
    { destination: '/proc', type: 'proc', source: 'proc', options: ['nosuid', 'noexec', 'nodev'] },
    // The runtime creates device files in it, so it cannot be nodev.
    { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'strictatime', 'size=64k', 'mode=755'] },
    {
      destination: '/dev/pts',
      type: 'devpts',
      source: 'devpts',
      options: ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620', 'gid=5', `max=${TERMINALS}`],
    },
    tmpfs('/dev/shm', '64m', '1777', 'noexec'),
    // In memory, and counted towards the session's memory limit.
    ...(input.isBuild ? [] : [tmpfs('/tmp', `${Math.floor(input.memoryMb / 2)}m`, '1777')]),
    tmpfs('/run', '16m', '755'),
  ]
}

function idMappings(ids: readonly IdRange[]): object[] {
  return ids.map(range => ({ containerID: range.inside, hostID: range.outside, size: range.size }))
}
