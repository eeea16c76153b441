// A vitest reporter that writes counts, every test, every failure with its errors, and every skip with its reason, to the
// file that TALLY_FILE names.
import { writeFileSync } from 'node:fs'
import type { Reporter, TestModule } from 'vitest/node'
import type { Ran } from '../../test/gates/coverage-rows.ts'

export type Tally = {
  passed: number
  failed: number
  /** What failed, each with its file and its errors. */
  failures: string[]
  skips: { title: string; reason: string }[]
  ran: Ran[]
}

export default class TallyReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const tally: Tally = { passed: 0, failed: 0, failures: [], skips: [], ran: [] }
    for (const module of modules) {
      for (const error of module.errors()) tally.failures.push(`${module.relativeModuleId}\n${error.stack ?? error.message}`)
      for (const test of module.children.allTests()) {
        const result = test.result()
        tally.ran.push({ file: module.relativeModuleId, title: test.fullName, passed: result.state === 'passed' })
        if (result.state === 'passed') tally.passed++
        else if (result.state === 'skipped') tally.skips.push({ title: test.fullName, reason: result.note ?? '' })
        else {
          tally.failed++
          const errors = (result.errors ?? []).map(error => error.stack ?? error.message)
          tally.failures.push(`${module.relativeModuleId}: ${test.fullName}\n${errors.join('\n')}`)
        }
      }
    }
    // biome-ignore lint/style/noProcessEnv: vitest makes the reporter and passes it nothing else
    const path = process.env.TALLY_FILE
    if (path) writeFileSync(path, JSON.stringify(tally))
  }
}
