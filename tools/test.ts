// `npm test`: every check of the repository, one stage after another. The last line of stdout is the sum over all of them.
//   --ci       no heartbeat rewriting; a skip without a reason is a failure either way
//   WORD…      narrow vitest to files whose path contains one of them, and run nothing else
import { parseArgs } from 'node:util'
import { coverage } from './test/coverage.ts'
import { goTest } from './test/go.ts'
import { command, type Outcome, runStage } from './test/stage.ts'
import { vitest } from './test/vitest.ts'

const { values, positionals } = parseArgs({ options: { ci: { type: 'boolean', default: false } }, allowPositionals: true })

const bin = (name: string) => `node_modules/.bin/${name}`
const STAGES: Record<string, () => Promise<Outcome>> = {
  lint: () => command('lint', [bin('biome'), 'ci', '--colors=off', '--max-diagnostics=100', '.']),
  types: () => command('types', [bin('tsc'), '-p', '.']),
  'unused code': () => command('knip', [process.execPath, 'node_modules/knip/bin/knip.js', '--no-progress']),
  gates: () => vitest('gates', ['test/gates']),
  gofmt: () => command('gofmt', ['sh', '-c', 'unformatted=$(gofmt -l runner) && echo "$unformatted" && test -z "$unformatted"']),
  'go vet': () => command('go-vet', ['go', 'vet', './...'], 'runner'),
  'go test': () => goTest(),
  tests: () => vitest('tests', ['--exclude', 'test/gates/**']),
  coverage: () => coverage(outcomes.flatMap(outcome => outcome.ran)),
}

const stages = positionals.length > 0 ? { tests: () => vitest('tests', positionals) } : STAGES
const outcomes: Outcome[] = []
for (const [name, run] of Object.entries(stages)) outcomes.push(await runStage(name, run, values.ci))

const skips = outcomes.flatMap(o => o.skips)
if (skips.length > 0) console.log(`skipped:\n${skips.map(s => `  ${s.title}: ${s.reason || 'NO REASON GIVEN'}`).join('\n')}`)
const unexplained = skips.filter(s => !s.reason).length
const failed = sum('failed') + unexplained
console.log(`${sum('passed')} passed, ${failed} failed, ${skips.length - unexplained} skipped`)
process.exitCode = failed > 0 ? 1 : 0

function sum(key: 'passed' | 'failed'): number {
  return outcomes.reduce((n, o) => n + o[key], 0)
}
