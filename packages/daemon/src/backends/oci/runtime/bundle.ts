// The OCI runtime's config.json: namespaces, capabilities, mounts of the virtual filesystems. Real files are mounted by the launcher.

import { MASKED_PROC, READONLY_PROC } from '../../isolation/hidden-paths.ts'
import type { SeccompProfile } from '../../isolation/seccomp.ts'
import { RUNNER_PATH } from '../../rootfs/sandbox-paths.ts'
import type { IdRange } from '../users/id-ranges.ts'
import type { NamedRlimit } from './rlimits.ts'

export interface BundleInput {
  readonly hostname: string
  readonly rootfs: string
  /** Of the runner. */
  readonly args: readonly string[]
  /** For a kernel that keeps limits of its own; the others inherit them. */
  readonly rlimits: readonly NamedRlimit[]
  /** Where the runtime finds the machine's user namespace, with these ids; null for one that makes it. */
  readonly users: string | null
  readonly ids: readonly IdRange[]
  readonly memoryMb: number
  /** Where a runtime that keeps cgroups itself makes its own, below the machine's; null for a sandbox born in its groups. */
  readonly cgroupsPath: string | null
  /** Null when the runner has the filter. */
  readonly seccomp: SeccompProfile | null
  /** The profile as compiled before, which saves the runtime the work. Only crun takes it. */
  readonly compiledSeccomp: Buffer | null
}

// SECURITY: what the runner needs to act for other users of its own sandbox. NET_ADMIN and SETPCAP serve to set up the loopback
// interface; the runner gives them up before it serves. What it starts as the user sandbox has none of them.
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
/** SECURITY: of the terminals that the whole host has, one sandbox may have so many. */
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
      env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'],
      noNewPrivileges: true,
      rlimits: input.rlimits,
      capabilities: { bounding: CAPABILITIES, effective: CAPABILITIES, permitted: CAPABILITIES, inheritable: [], ambient: [] },
    },
    mounts: mounts(input),
    // With no call allowed in the profile, a runtime that does not know the annotation starts nothing.
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
    // Device files are made in it, so it cannot be nodev itself.
    { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'strictatime', 'size=64k', 'mode=755'] },
    {
      destination: '/dev/pts',
      type: 'devpts',
      source: 'devpts',
      options: ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620', 'gid=5', `max=${TERMINALS}`],
    },
    tmpfs('/dev/shm', '64m', '1777', 'noexec'),
    // In memory, and part of the session's memory limit.
    tmpfs('/tmp', `${Math.floor(input.memoryMb / 2)}m`, '1777'),
    tmpfs('/run', '16m', '755'),
  ]
}

function idMappings(ids: readonly IdRange[]): object[] {
  return ids.map(range => ({ containerID: range.inside, hostID: range.outside, size: range.size }))
}
