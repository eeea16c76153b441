// Waits for a condition, with a deadline.
import { setTimeout as delay } from 'node:timers/promises'

export async function until(
  what: string,
  deadlineMs: number,
  signal: AbortSignal | undefined,
  holds: () => Promise<boolean> | boolean,
): Promise<void> {
  const end = performance.now() + deadlineMs
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`${what}: not within ${deadlineMs / 1000} s`)
    await delay(20, undefined, { signal })
  }
}
