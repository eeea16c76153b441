import { shortDuration } from '../duration.ts'

/** What is said of a command that its timeout ended, and what may be done about it. */
export function timeoutNote(timeoutMs: number, next: string): string {
  const time = timeoutMs % 1000 === 0 ? shortDuration(timeoutMs) : `${timeoutMs}ms`
  return `sandglass: ended after ${time}, its timeout\n  next: ${next}\n`
}
