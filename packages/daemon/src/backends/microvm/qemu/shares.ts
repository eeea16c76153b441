// Folders of the host in a machine, through virtiofsd or QEMU's own 9p server.
import { existsSync, lstatSync } from 'node:fs'
import { lstat } from 'node:fs/promises'
import type { HostMount } from '../../backend.ts'
import { unsupported } from '../../machine/unsupported.ts'
import type { GuestShare } from '../boot/guest-config.ts'
import type { MicrovmPaths } from '../paths.ts'
import type { Host } from '../probe.ts'
import type { VmJob } from './launcher.ts'

export type ShareProto = 'virtiofs' | '9p'

/** Where distributions have it: it is no program for people. */
const VIRTIOFSD = ['/usr/libexec/virtiofsd', '/usr/lib/qemu/virtiofsd', '/usr/lib/virtiofsd', '/usr/bin/virtiofsd']
const VIRTIOFSD_ARGS = ['-f', '-o', 'sandbox=namespace', '-o', 'cache=auto', '-o', 'log_level=err', '--rlimit-nofile=0']

export const findVirtiofsd = (): string | null => VIRTIOFSD.find(path => existsSync(path)) ?? null

/** Throws for mounts that no machine here can have. The keeper looks again when it has the folder open. */
export async function refuseShares(host: Host, proto: ShareProto, mounts: readonly HostMount[]): Promise<void> {
  if (mounts.length === 0) return
  if (!host.boot.sets.includes(proto))
    throw unsupported(
      `mounts with ${proto}: the kernel ${host.kernelVersion} has no driver for it`,
      'set backends.microvm.share_proto to the other one, or backends.microvm.kernel to another kernel',
    )
  if (proto === 'virtiofs' && host.virtiofsd === null)
    throw unsupported('mounts with virtiofs: virtiofsd is not installed', 'install qemu-system-common, or the package virtiofsd')
  if (host.jailIds === null)
    throw unsupported('mounts: nothing keeps what serves them from the rest of the host here', 'run the daemon as root')
  for (const { source, readonly } of mounts) {
    if (readonly) continue
    if (proto === '9p')
      throw unsupported(
        'a writable mount with 9p: QEMU writes by way of /proc, which its jail has not',
        'set backends.microvm.share_proto to virtiofs',
      )
    if (!host.canShiftOwners)
      throw unsupported(
        'a writable mount as an ordinary user: its files could not be the user’s',
        'run the daemon as root, or mount it read-only',
      )
    const { uid, gid } = await lstat(source)
    if (uid === 0 || gid === 0)
      throw unsupported(
        `a writable mount of ${source}: what a session leaves there would be root’s`,
        `give the folder to a user: chown USER:GROUP ${source}; or mount it read-only`,
      )
  }
}

export const guestShares = (proto: ShareProto, mounts: readonly HostMount[]): GuestShare[] =>
  mounts.map(({ target, readonly }, i) => ({ type: proto, tag: tagOf(i), target, readonly }))

export const tagOf = (i: number): string => `share${i}`

/** What the keeper is told. `id` and the one after it are whom root and the user of the machine are on the host. */
export function keptShares(
  host: Host,
  paths: MicrovmPaths,
  proto: ShareProto,
  mounts: readonly HostMount[],
  id: number,
): VmJob['shares'] {
  // With 9p QEMU serves them itself, and the machine sees what is QEMU's as its user's.
  const owner = proto === '9p' ? id : id + 1
  const shown = host.canShiftOwners ? owner : 0
  return {
    path: stage([paths.dataDir, host.qemu, host.virtiofsd ?? '']),
    argv: proto === '9p' ? [] : [host.virtiofsd ?? '', ...VIRTIOFSD_ARGS],
    root_id: id,
    user_id: id + 1,
    folders: mounts.map(({ source, readonly }) => ({
      source,
      target: '',
      readonly,
      uid: shown,
      gid: shown,
      place_uid: 0,
      place_gid: 0,
    })),
  }
}

/** One of these that everybody may enter and that holds nothing we need: what is mounted on it is seen by one keeper alone. */
const STAGES = ['/mnt', '/media', '/srv', '/opt', '/home', '/tmp']

function stage(needed: readonly string[]): string {
  const free = STAGES.find(dir => isOpenFolder(dir) && !needed.some(path => path.startsWith(`${dir}/`)))
  if (free === undefined)
    throw unsupported(`mounts: none of ${STAGES.join(', ')} is a folder that everybody may enter`, 'sudo install -d -m 755 /mnt')
  return free
}

function isOpenFolder(path: string): boolean {
  const info = lstatSync(path, { throwIfNoEntry: false })
  return info?.isDirectory() === true && (info.mode & 0o001) !== 0
}
