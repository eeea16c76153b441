// Shared folders of the host, served by virtiofsd or by QEMU's own 9p server.
import { existsSync, lstatSync } from 'node:fs'
import type { HostMount } from '../../backend.ts'
import type { VmJob } from '../../launcher/schema.ts'
import { unsupported } from '../../machine/refusals.ts'
import type { GuestShare } from '../boot/guest-config.ts'
import type { MicrovmPaths } from '../paths.ts'
import type { Host } from '../probe.ts'

export type ShareProto = 'virtiofs' | '9p'

/** Where distributions install it: it is not in PATH. */
const VIRTIOFSD = ['/usr/libexec/virtiofsd', '/usr/lib/qemu/virtiofsd', '/usr/lib/virtiofsd', '/usr/bin/virtiofsd']
const VIRTIOFSD_ARGS = ['-f', '-o', 'sandbox=namespace', '-o', 'cache=auto', '-o', 'log_level=err', '--rlimit-nofile=0']

export const findVirtiofsd = (): string | null => VIRTIOFSD.find(path => existsSync(path)) ?? null

export const guestShares = (proto: ShareProto, mounts: readonly HostMount[]): GuestShare[] =>
  mounts.map(({ target, readonly }, i) => ({ type: proto, tag: tagOf(i), target, readonly }))

export const tagOf = (i: number): string => `share${i}`

/** The shares in the supervisor's job. On the host, `id` stands for the guest's root and `id + 1` for the guest's user. */
export function sharesJob(
  host: Host,
  paths: MicrovmPaths,
  proto: ShareProto,
  mounts: readonly HostMount[],
  id: number,
): VmJob['shares'] {
  // With 9p QEMU serves the folders itself, and the guest shows QEMU's files as its user's.
  const owner = proto === '9p' ? id : id + 1
  const shown = host.canShiftOwners ? owner : 0
  return {
    path: mountPoint([paths.dataDir, host.qemu, host.virtiofsd ?? '']),
    argv: proto === '9p' ? [] : [host.virtiofsd ?? '', ...VIRTIOFSD_ARGS],
    root_id: id,
    user_id: id + 1,
    folders: mounts.map(({ source, readonly }) => ({
      source,
      target: '',
      readonly,
      uid: shown,
      gid: shown,
      point_uid: 0,
      point_gid: 0,
    })),
  }
}

/** Candidates for the mount point of the shares. It must be world-accessible and hold nothing that is needed; only the supervisor sees the mount. */
const MOUNT_POINTS = ['/mnt', '/media', '/srv', '/opt', '/home', '/tmp']

function mountPoint(needed: readonly string[]): string {
  const free = MOUNT_POINTS.find(dir => isOpenFolder(dir) && !needed.some(path => path.startsWith(`${dir}/`)))
  if (free === undefined)
    throw unsupported(`mounts: none of ${MOUNT_POINTS.join(', ')} is a world-accessible folder`, 'sudo install -d -m 755 /mnt')
  return free
}

function isOpenFolder(path: string): boolean {
  const info = lstatSync(path, { throwIfNoEntry: false })
  return info?.isDirectory() === true && (info.mode & 0o001) !== 0
}
