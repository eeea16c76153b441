// Durations: `90s`, `1h30m`.
import { usage } from './parse.ts'

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** `90`, `90s`, `1h30m`, `500ms` in milliseconds. A bare number is in `bare`. */
export function parseDuration(given: string, bare: keyof typeof UNITS, flag: string): number {
  if (/^\d+(\.\d+)?$/.test(given)) return Number(given) * UNITS[bare]
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(given)) throw usage(`${flag} ${given} is not a duration; write 30s, 5m or 1h30m`)
  let total = 0
  for (const [, number, unit] of given.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)) {
    total += Number(number) * UNITS[unit as keyof typeof UNITS]
  }
  return total
}

/** How a flag says that there is no limit. */
export const NONE = 'none'

/** A length of time in its largest two units: 1h 5m. */
export function shortDuration(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1000)
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'm'],
    [seconds % 60, 's'],
  ] as const
  const first = parts.findIndex(([count]) => count > 0)
  if (first < 0) return '0s'
  const shown = parts.slice(first, first + (first === 3 ? 1 : 2)).filter(([count]) => count > 0)
  return shown.map(([count, unit]) => `${count}${unit}`).join(' ')
}

/** `5m ago` or `in 25m`. */
export function fromNow(time: string | null, now = Date.now()): string {
  if (time === null) return '-'
  const ms = Date.parse(time) - now
  return ms > 0 ? `in ${shortDuration(ms)}` : `${shortDuration(ms)} ago`
}
