// What the daemon keeps of the egress process.
import { readFile } from 'node:fs/promises'
import { type Config, SandglassError } from '@sandglass/contract'
import type { EgressSettings } from '@sandglass/egress/control'
import { KeyedMutex } from '../lib/keyed-mutex.ts'
import { Authorities } from './authorities.ts'
import { EgressSupervisor, type SupervisorOptions } from './supervisor.ts'

export type EgressState = {
  readonly supervisor: EgressSupervisor
  readonly authorities: Authorities
  /** By session id. Whoever sends a session to the egress process, or removes it there, holds its mutex. */
  readonly mutex: KeyedMutex
  /** Of sessions whose runner the egress process cannot dial, by session id. */
  readonly relays: Map<string, { close(): void }>
}

type Options = Omit<SupervisorOptions, 'settings'> & { readonly config: Readonly<Config>; readonly now: () => number }

export function egressState({ config, now, ...options }: Options): EgressState {
  const authorities = new Authorities(options.dataDir, now)
  const settings = () => egressSettings(config, authorities)
  return { supervisor: new EgressSupervisor({ ...options, settings }), authorities, mutex: new KeyedMutex(), relays: new Map() }
}

async function egressSettings({ egress }: Readonly<Config>, authorities: Authorities): Promise<EgressSettings> {
  return {
    authorities: await authorities.all(),
    extraRoots: await Promise.all(egress.ca_files.map(readCertificates)),
    overrides: egress.overrides,
    upstreamProxy: egress.upstream_proxy ?? null,
    approvalSeconds: egress.approval_seconds,
    logBytes: egress.log_bytes,
  }
}

/** SECURITY: a file that cannot be read is no reason to trust fewer authorities than configured, and to go on. */
async function readCertificates(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    const why = `egress.ca_files: ${(error as Error).message}`
    throw new SandglassError('EGRESS_UNAVAILABLE', { why }, { cause: error })
  }
}
