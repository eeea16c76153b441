// A machine on a bridge of the host: a real interface, the one thing that no policy sees.
import { existsSync } from 'node:fs'
import { unsupported } from '../../machine/unsupported.ts'
import type { Host } from '../probe.ts'

const NAME_ONE = 'name a bridge of this host in backends.microvm.bridge; `ip link show type bridge` lists them'

/** Throws for a machine that cannot have it here. */
export function refuseBridge({ boot, jailIds }: Host, bridge: string | null, network: 'none' | 'bridge'): void {
  if (network === 'none') return
  if (bridge === null) throw unsupported('a bridge with microvm: backends.microvm.bridge does not name one of the host', NAME_ONE)
  if (!existsSync(`/sys/class/net/${bridge}/bridge`))
    throw unsupported(`a bridge with microvm: ${bridge} is no bridge of this host`, NAME_ONE)
  if (jailIds?.isRoots !== true)
    throw unsupported('a bridge with microvm: only root may put an interface into one', 'run the daemon as root')
  if (!boot.sets.includes('net'))
    throw unsupported(
      'a bridge with microvm: the kernel has no driver for a network card',
      'name another kernel in backends.microvm.kernel',
    )
}
