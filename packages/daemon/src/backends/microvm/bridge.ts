// A machine on a bridge of the host: a real interface, the one thing that no policy sees.
import { existsSync } from 'node:fs'
import { SandglassError } from '@sandglass/contract/tables'
import type { Host } from './probe.ts'

/** Throws for a machine that cannot have it here. */
export function refuseBridge({ boot, jailIds }: Host, bridge: string | null, network: 'none' | 'bridge'): void {
  if (network === 'none') return
  if (bridge === null) throw unsupported('a bridge with microvm: backends.microvm.bridge does not name one of the host')
  if (!existsSync(`/sys/class/net/${bridge}/bridge`))
    throw unsupported(`a bridge with microvm: ${bridge} is no bridge of this host`)
  if (jailIds?.isRoots !== true) throw unsupported('a bridge with microvm: only root may put an interface into one')
  if (!boot.sets.includes('net')) throw unsupported('a bridge with microvm: the kernel has no driver for a network card')
}

const unsupported = (what: string) => new SandglassError('UNSUPPORTED', { what })
