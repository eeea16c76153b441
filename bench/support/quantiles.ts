// A list of samples as the figures that are reported.

export interface Figures {
  readonly p50: number
  readonly p99: number
  readonly min: number
  readonly max: number
  readonly n: number
  /** What one benchmark has to say beyond the quantiles. */
  readonly [extra: string]: number | string
}

/** The quantiles of at least one sample, to three decimals. */
export function figures(samples: readonly number[], extra: Readonly<Record<string, number | string>> = {}): Figures {
  if (samples.length === 0) throw new Error('no samples')
  const sorted = [...samples].sort((a, b) => a - b)
  return {
    p50: round(quantile(sorted, 0.5)),
    p99: round(quantile(sorted, 0.99)),
    min: round(quantile(sorted, 0)),
    max: round(quantile(sorted, 1)),
    n: sorted.length,
    ...extra,
  }
}

export function median(samples: readonly number[]): number {
  return figures(samples).p50
}

/** Linear interpolation between the two nearest ranks. */
function quantile(sorted: readonly number[], q: number): number {
  const rank = (sorted.length - 1) * q
  const low = sorted[Math.floor(rank)] ?? 0
  const high = sorted[Math.ceil(rank)] ?? low
  return low + (high - low) * (rank - Math.floor(rank))
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000
}
