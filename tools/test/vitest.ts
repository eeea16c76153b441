// Runs vitest and reads what the tally reporter wrote.
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { capture, type Outcome, tail } from './stage.ts'
import type { Tally } from './tally-reporter.ts'

export async function vitest(name: string, args: string[]): Promise<Outcome> {
  const tallyPath = `.cache/test/${name}.json`
  rmSync(tallyPath, { force: true })
  const argv = [
    'node_modules/vitest/vitest.mjs',
    'run',
    '--reporter=default',
    '--reporter=./tools/test/tally-reporter.ts',
    ...args,
  ]
  const { code, output } = await capture(name, ['env', `TALLY_FILE=${tallyPath}`, 'NO_COLOR=1', process.execPath, ...argv])
  if (!existsSync(tallyPath)) return { passed: 0, failed: 1, skips: [], ran: [], report: tail(output, 400) }
  const tally: Tally = JSON.parse(readFileSync(tallyPath, 'utf8'))
  // An error outside every test (a file that does not load, an unhandled rejection) fails the run without failing a test.
  const outside = code !== 0 && tally.failed === 0 ? 1 : 0
  // What failed comes first: a log that is cut still shows it.
  return { ...tally, failed: tally.failed + outside, report: [...tally.failures, tail(output, 400)].join('\n\n') }
}
