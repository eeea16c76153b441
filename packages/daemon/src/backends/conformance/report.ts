// Runs the suite without a test runner and prints a line of JSON for each check.
import type { Subject } from './subject.ts'
import { CHECKS } from './suite.ts'

/** `wanted` are the titles of the checks to run; empty for all. */
export async function report(
  subject: Subject,
  without: Readonly<Record<string, string>>,
  wanted: readonly string[],
): Promise<void> {
  const backend = await subject.open()
  for (const [title, check] of Object.entries(CHECKS)) {
    if (title in without || (wanted.length > 0 && !wanted.includes(title))) continue
    const began = performance.now()
    const error = await check(backend, subject).then(
      () => null,
      (error: unknown) => (error instanceof Error ? (error.stack ?? error.message) : String(error)),
    )
    process.stdout.write(`${JSON.stringify({ title, error, ms: Math.round(performance.now() - began) })}\n`)
  }
  for (const id of await backend.sessionIds()) await backend.discard(id)
}
