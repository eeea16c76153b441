// Refuses machines whose requirements this host cannot meet. Each error says what is missing and what to do.
import { existsSync } from 'node:fs'
import { lstat } from 'node:fs/promises'
import type { HostMount, MachineRequirements } from '../backend.ts'
import { unsupported } from '../machine/refusals.ts'
import type { Host, MicrovmOptions } from './probe.ts'
import type { ShareProto } from './qemu/shares.ts'

const NAME_BRIDGE = 'name a bridge of this host in backends.microvm.bridge; `ip link show type bridge` lists them'

export async function refuseUnsupported(
  host: Host,
  { shareProto, bridge }: MicrovmOptions,
  { mounts, nestedVirt, network }: MachineRequirements,
): Promise<void> {
  if (nestedVirt) refuseNested(host)
  await refuseShares(host, shareProto, mounts)
  if (network === 'bridge') refuseBridge(host, bridge)
}

function refuseNested({ accel, nested }: Host): void {
  if (nested !== null) return
  throw unsupported(
    `nested virtualisation with microvm: ${accel === 'kvm' ? 'neither kvm_intel nor kvm_amd of this host has nested=1, or the guest kernel has no driver for it' : 'KVM does not work here'}`,
    'leave it out; `sandglass doctor` says what this host lacks for it',
  )
}

/** The launcher checks the folders again when it has opened them. */
async function refuseShares(host: Host, proto: ShareProto, mounts: readonly HostMount[]): Promise<void> {
  if (mounts.length === 0) return
  if (!host.boot.sets.includes(proto))
    throw unsupported(
      `mounts with ${proto}: the kernel ${host.kernelVersion} has no driver for it`,
      'set backends.microvm.share_proto to the other one, or backends.microvm.kernel to another kernel',
    )
  if (proto === 'virtiofs' && host.virtiofsd === null)
    throw unsupported('mounts with virtiofs: virtiofsd is not installed', 'install qemu-system-common, or the package virtiofsd')
  if (host.jailIds === null)
    throw unsupported('mounts: the process that serves them cannot be isolated from the host here', 'run the daemon as root')
  for (const { source, readonly } of mounts) {
    if (readonly) continue
    if (proto === '9p')
      throw unsupported(
        'a writable mount with 9p: QEMU writes through /proc, which its jail does not have',
        'set backends.microvm.share_proto to virtiofs',
      )
    if (!host.canShiftOwners)
      throw unsupported(
        'a writable mount as an ordinary user: its files could not belong to the user',
        'run the daemon as root, or mount it read-only',
      )
    const { uid, gid } = await lstat(source)
    if (uid === 0 || gid === 0)
      throw unsupported(
        `a writable mount of ${source}: files that a session writes there would belong to root`,
        `give the folder to a user: chown USER:GROUP ${source}; or mount it read-only`,
      )
  }
}

function refuseBridge({ boot, jailIds }: Host, bridge: string | null): void {
  if (bridge === null) throw unsupported('a bridge with microvm: backends.microvm.bridge is not set', NAME_BRIDGE)
  if (!existsSync(`/sys/class/net/${bridge}/bridge`))
    throw unsupported(`a bridge with microvm: ${bridge} is not a bridge of this host`, NAME_BRIDGE)
  if (jailIds?.isRoots !== true)
    throw unsupported('a bridge with microvm: only root can add an interface to a bridge', 'run the daemon as root')
  if (!boot.sets.includes('net'))
    throw unsupported(
      'a bridge with microvm: the kernel has no driver for a network card',
      'set backends.microvm.kernel to another kernel',
    )
}
