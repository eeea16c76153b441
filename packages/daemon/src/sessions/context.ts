// What every verb works with. Built once by daemon.ts and passed down.
import type { Config } from '@sandglass/contract'
import type { Backend } from '../backends/backend.ts'
import type { Ballast } from '../data-dir/ballast.ts'
import type { ImageState } from '../images/context.ts'
import type { KeyedMutex } from '../lib/keyed-mutex.ts'
import type { Logger } from '../log.ts'
import type { Store } from '../store/open.ts'
import type { Changes } from './changes.ts'
import type { Leases } from './lease/lease.ts'
import type { Reaper } from './lease/reaper.ts'
import type { Leftover } from './lifecycle/leftovers.ts'
import type { Preparations } from './lifecycle/progress.ts'
import type { LiveSessions } from './live.ts'
import type { Metrics } from './metrics.ts'

export type SessionContext = {
  readonly config: Readonly<Config>
  readonly store: Store
  /** By name, in the order that `auto` tries them. */
  readonly backends: ReadonlyMap<string, Backend>
  readonly dataDir: string
  readonly images: ImageState
  /** Seals what the store keeps of environments and secrets. */
  readonly secretKey: Buffer
  readonly live: LiveSessions
  readonly leases: Leases
  readonly reaper: Reaper
  readonly mutex: KeyedMutex
  readonly changes: Changes
  /** Starts under way; a terminate aborts the one it finds. */
  readonly starting: Map<string, AbortController>
  readonly preparations: Preparations
  /** Bytes of disk that starts under way will take. */
  readonly promised: Map<string, number>
  /** Gives way when a state has to be stored on a full disk. */
  readonly ballast: Ballast
  /** Ended sessions whose machine could not be removed yet. */
  readonly leftovers: Map<string, Leftover>
  /** Aborts when the daemon stops: streams end, and no request is taken any more. */
  readonly closing: AbortSignal
  readonly metrics: Metrics
  readonly log: Logger
  /** Milliseconds since the epoch. */
  readonly now: () => number
}
