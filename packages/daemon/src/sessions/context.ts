// sessions/ holds the verbs of a session. lifecycle/ changes its state, placement/ decides where and with what it starts, lease/ ends it when
// it is not used, limits/ watches and changes its limits, network/ tells the egress process about it, inside/ does what the runner in the sandbox
// is asked for.
// This is what every verb works with; daemon.ts builds it once and passes it down.
import type { Config } from '@sandglass/contract'
import type { AgentState } from '../agents/packages/context.ts'
import type { HeldWriter } from '../approvals/held.ts'
import type { Backend, TrustedCa } from '../backends/backend.ts'
import type { ReservedSpace } from '../data-dir/reserved-space.ts'
import type { EgressState } from '../egress/context.ts'
import type { ImageState } from '../images/context.ts'
import type { KeyedMutex } from '../lib/keyed-mutex.ts'
import type { Periodic } from '../lib/periodic.ts'
import type { Logger } from '../log.ts'
import type { Store } from '../store/open.ts'
import type { Changes } from './changes.ts'
import type { Leases } from './lease/lease.ts'
import type { Leftover } from './lifecycle/leftovers.ts'
import type { Preparations } from './lifecycle/prepare-image.ts'
import type { LiveSessions } from './live.ts'
import type { Metrics } from './metrics.ts'

export type SessionContext = {
  readonly config: Readonly<Config>
  readonly store: Store
  /** By name, in the order that `auto` tries them. */
  readonly backends: ReadonlyMap<string, Backend>
  readonly dataDir: string
  readonly images: ImageState
  readonly agents: AgentState
  /** Encrypts environments and secrets in the store. */
  readonly secretKey: Buffer
  readonly live: LiveSessions
  readonly leases: Leases
  /** Runs the sweep for sessions that expire. */
  readonly reaper: Periodic
  /** By session id. Whoever changes the state of a session holds its mutex. */
  readonly mutex: KeyedMutex
  readonly changes: Changes
  /** Stores held requests. */
  readonly held: HeldWriter
  /** Announces changes of approvals. */
  readonly approvalChanges: Changes
  readonly egress: EgressState
  /** The certificate authority for starts; undefined while there is none. */
  readonly trusted: () => Promise<TrustedCa | undefined>
  /** Starts under way, by session id; a terminate aborts them. */
  readonly starting: Map<string, AbortController>
  readonly preparations: Preparations
  /** Bytes of disk admitted for starts under way, by session id. */
  readonly promised: Map<string, number>
  /** Freed when a state has to be stored on a full disk. */
  readonly reservedSpace: ReservedSpace
  /** Ended sessions whose machine could not be removed yet, by session id. */
  readonly leftovers: Map<string, Leftover>
  /** Aborts when the daemon stops: streams end, and no request is accepted any more. */
  readonly closing: AbortSignal
  readonly metrics: Metrics
  readonly log: Logger
  /** Milliseconds since the epoch. */
  readonly now: () => number
}
