// What a benchmark is given and what it returns.
import type { Figures } from './quantiles.ts'

export interface Options {
  /** The long version: more iterations, more sessions, every runtime. */
  readonly full: boolean
  /** False measures Sandglass alone, for hosts where no private engine can be started. */
  readonly withPeer: boolean
  /** Aborted by Ctrl-C: whatever was started is stopped and removed. */
  readonly signal: AbortSignal
  /** One line for the person who waits, on stderr. */
  readonly say: (line: string) => void
}

export interface Case {
  readonly case: string
  readonly unit: 'ms' | 'MiB' | 'per second'
  readonly ours: Figures
  readonly peer: Figures | null
  /** How many times better ours is, at the median; null without a peer. */
  readonly ratio: number | null
}

export interface Benchmark {
  readonly about: string
  /** What the peer's figures are of. */
  readonly peer: string
  run(options: Options): Promise<Case[]>
}

/** Less is better: times and memory. */
export function lessIsBetter(name: string, unit: 'ms' | 'MiB', ours: Figures, peer: Figures | null): Case {
  return { case: name, unit, ours, peer, ratio: peer && round(peer.p50 / ours.p50) }
}

/** More is better: rates. */
export function moreIsBetter(name: string, ours: Figures, peer: Figures | null): Case {
  return { case: name, unit: 'per second', ours, peer, ratio: peer && round(ours.p50 / peer.p50) }
}

function round(ratio: number): number {
  return Math.round(ratio * 100) / 100
}
