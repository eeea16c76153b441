// Waits for a condition; fails with its name when the time is up.
import { setTimeout as pause } from 'node:timers/promises'

export async function deadline(what: string, condition: () => boolean | Promise<boolean>, ms = 20_000): Promise<void> {
  const end = Date.now() + ms
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`)
    await pause(20)
  }
}
