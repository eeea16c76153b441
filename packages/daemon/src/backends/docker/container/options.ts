// The options with which the engine creates the container of a session.
import { DEFAULT_PATH, RUNNER_PATH, SANDBOX_HOME, WORKSPACE } from '@sandglass/contract/tables'
import type { ContainerCreateOptions } from 'dockerode'
import type { MachineSpec } from '../../backend.ts'
import { MASKED_PROC, READONLY_PROC } from '../../isolation/hidden-paths.ts'
import { openFileLimit } from '../../isolation/open-files.ts'
import type { SeccompProfile } from '../../isolation/seccomp.ts'
import { RUNNER_THREADS, type RunnerTokens, runnerConfig } from '../../machine/runner-config.ts'
import { SANDBOX_ID } from '../../rootfs/image-users.ts'
import { SOCKET_FOLDER } from '../../rootfs/sandbox-paths.ts'
import { containerName, OWNER_LABEL, SESSION_LABEL, volumeName } from '../engine/names.ts'
import { NO_COPY } from '../images/filled-volume.ts'
import { resources } from './limits.ts'

export const SOCKET_NAME = 'runner.sock'
const MiB = 1024 * 1024
const SOCKET_TMPFS = `rw,nosuid,nodev,noexec,size=64k,nr_inodes=16,mode=700,uid=${SANDBOX_ID},gid=${SANDBOX_ID}`
/** Without it `/proc/self/cgroup` shows the names of the container and of the engine's groups. dockerode's types lack the field. */
const PRIVATE_CGROUPS = { CgroupnsMode: 'private' }

export interface ContainerInput {
  readonly spec: MachineSpec
  readonly owner: string
  /** The image's id in the engine. */
  readonly image: string
  /** Bind mounts of folders that belong to the image, in the engine's format. */
  readonly binds: readonly string[]
  readonly runnerVolume: string
  /** In the order of the packages of the spec. */
  readonly packageVolumes: readonly string[]
  readonly seccomp: SeccompProfile
}

export function containerOptions(input: ContainerInput): ContainerCreateOptions {
  const { spec } = input
  const openFiles = openFileLimit(spec.pidsLimit)
  return {
    name: containerName(spec.id),
    Image: input.image,
    Hostname: spec.name,
    Entrypoint: [RUNNER_PATH],
    // A daemon on the same machine connects to the socket, any other one to stdin and stdout.
    Cmd: ['--config-line', '--stdio', '--listen', `${SOCKET_FOLDER}/${SOCKET_NAME}`],
    // SECURITY: without a user namespace, root in a container is root on the engine's machine. Nothing in the container runs as root.
    User: `${SANDBOX_ID}:${SANDBOX_ID}`,
    WorkingDir: '/',
    Env: [`PATH=${DEFAULT_PATH}`],
    Labels: { [SESSION_LABEL]: spec.id, [OWNER_LABEL]: input.owner },
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    OpenStdin: true,
    StdinOnce: false,
    Tty: false,
    Healthcheck: { Test: ['NONE'] },
    HostConfig: {
      ReadonlyRootfs: true,
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges:true', `seccomp=${JSON.stringify(input.seccomp)}`],
      NetworkMode: spec.network === 'none' ? 'none' : 'bridge',
      Dns: ['127.0.0.53'],
      DnsOptions: ['edns0', 'timeout:2'],
      IpcMode: 'private',
      ...PRIVATE_CGROUPS,
      ...resources(spec),
      MemorySwap: spec.memoryMb * MiB,
      Ulimits: [
        { Name: 'core', Soft: 0, Hard: 0 },
        { Name: 'nofile', Soft: openFiles, Hard: openFiles },
        { Name: 'msgqueue', Soft: 0, Hard: 0 },
      ],
      Sysctls: { 'net.ipv4.ip_unprivileged_port_start': '0' },
      Tmpfs: {
        '/tmp': `rw,nosuid,nodev,exec,size=${Math.floor(spec.memoryMb / 2)}m,mode=1777`,
        '/run': 'rw,nosuid,nodev,noexec,size=16m,mode=755',
        [SOCKET_FOLDER]: SOCKET_TMPFS,
        // Hides the engine's own cgroup mounts, which show the names of the container and the engine.
        '/sys/fs/cgroup': 'ro,nosuid,nodev,noexec,size=4k,mode=555',
      },
      ShmSize: 64 * MiB,
      Mounts: [
        { Type: 'volume', Source: input.runnerVolume, Target: '/.sandglass', ReadOnly: true, VolumeOptions: NO_COPY },
        // The engine copies the image's files and their owner into these new volumes.
        { Type: 'volume', Source: volumeName(spec.id, 'workspace'), Target: WORKSPACE, ReadOnly: false },
        { Type: 'volume', Source: volumeName(spec.id, 'home'), Target: SANDBOX_HOME, ReadOnly: false },
        // SECURITY: the kernel's /sys shows every disk and every other container. The image's /sys has the processors and nothing more.
        { Type: 'volume', Source: volumeName(spec.id, 'sys'), Target: '/sys', ReadOnly: true },
        ...spec.packages.map(({ target }, i) => ({
          Type: 'volume' as const,
          Source: input.packageVolumes[i] ?? '',
          Target: target,
          ReadOnly: true,
          VolumeOptions: NO_COPY,
        })),
        ...spec.mounts.map(({ source, target, readonly }) => ({
          Type: 'bind' as const,
          Source: source,
          Target: target,
          ReadOnly: readonly,
          // SECURITY: a recursive bind mount would leave mounts below a read-only folder writable.
          BindOptions: { Propagation: 'rprivate' as const, NonRecursive: true },
        })),
      ],
      Binds: [...input.binds],
      // The boot id is the same in all containers. runc refuses a mount in /proc that could replace it.
      MaskedPaths: [...MASKED_PROC, '/proc/sys/kernel/random/boot_id'],
      ReadonlyPaths: READONLY_PROC,
      // SECURITY: the engine would write the output of a container to a log file without a bound.
      LogConfig: { Type: 'none', Config: {} },
      RestartPolicy: { Name: 'no' },
      AutoRemove: false,
      ...(spec.runtime === null ? {} : { Runtime: spec.runtime }),
      Init: false,
    },
  }
}

/**
 * What the runner reads as the first line of its stdin. It creates its threads at its start: the process limit counts them together with what
 * the sandbox starts, which could otherwise leave none for the runner.
 */
export const stdinConfig = (spec: MachineSpec, tokens: RunnerTokens, user: string): object => ({
  ...runnerConfig(spec, tokens, user),
  threads: RUNNER_THREADS,
})
