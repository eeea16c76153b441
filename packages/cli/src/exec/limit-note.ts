import { type LimitHit, limitText } from '@sandglass/contract/tables'

/** What is said of a command that failed when its session had reached a limit, and how to raise that limit. */
export function limitNote(name: string, hit: LimitHit): string {
  return `sandglass: session ${name} ${limitText(hit)}\n  next: ${nextStep(name, hit)}\n`
}

function nextStep(name: string, { limit, value }: LimitHit): string {
  const flag = `--${limit.replaceAll('_', '-')} ${value * 2}`
  if (limit === 'disk_mb') return `remove files, or make a session with more: sandglass new ${flag}`
  return `sandglass resize ${name} ${flag}, or sandglass new ${flag}`
}
