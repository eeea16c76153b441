// The last stage of a whole run: every test that docs/coverage.md names has passed in it.
import { coverageRows, notPassed, type Ran, testsIn } from '../../test/gates/coverage-rows.ts'
import type { Outcome } from './stage.ts'

export async function coverage(ran: readonly Ran[]): Promise<Outcome> {
  const rows = coverageRows()
  const missing = notPassed(rows, ran)
  const named = rows.flatMap(testsIn).length
  const report = `docs/coverage.md names tests that did not pass in this run:\n${missing.join('\n')}`
  return { passed: named - missing.length, failed: missing.length, skips: [], ran: [], report }
}
