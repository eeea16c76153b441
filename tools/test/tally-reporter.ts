// A vitest reporter that writes counts, and every skip with its reason, to the file that TALLY_FILE names.
import { writeFileSync } from 'node:fs'
import type { Reporter, TestModule } from 'vitest/node'

export type Tally = { passed: number; failed: number; skips: { title: string; reason: string }[] }

export default class TallyReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const tally: Tally = { passed: 0, failed: 0, skips: [] }
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const result = test.result()
        if (result.state === 'passed') tally.passed++
        else if (result.state === 'skipped') tally.skips.push({ title: test.fullName, reason: result.note ?? '' })
        else tally.failed++
      }
    }
    // biome-ignore lint/style/noProcessEnv: vitest makes the reporter and passes it nothing else
    const path = process.env.TALLY_FILE
    if (path) writeFileSync(path, JSON.stringify(tally))
  }
}
