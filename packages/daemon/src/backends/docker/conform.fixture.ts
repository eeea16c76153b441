// The conformance suite against any Docker engine, as a plain program. Prints a line of JSON for each check. Arguments: the endpoint of the engine
// (unix:///path), one of its runtimes or '' for its default, and the titles of checks to run (default: all).
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { missingPrograms } from '../conformance/programs.ts'
import { report } from '../conformance/report.ts'
import { inBox, type Subject } from '../conformance/subject.ts'
import { DOCKER } from '../limitations.ts'
import { openDocker } from './backend.ts'

const [endpoint = '', runtime = '', ...wanted] = process.argv.slice(2)
const starter = fileURLToPath(new URL('./starter.fixture.ts', import.meta.url))
const runnerPath = fileURLToPath(new URL('../../../../../runner/bin/runner', import.meta.url))
const dataDir = mkdtempSync(join(tmpdir(), 'sandglass-docker-'))
const options = { dataDir, runnerPath, endpoint, runtimes: [runtime].filter(Boolean) }
const chosen = runtime === '' ? {} : { runtime, hasOwnKernel: true, patience: 10 }
const subject: Subject = {
  open: async () => openDocker(options),
  starter: [process.execPath, starter, JSON.stringify(options)],
  allowUnenforced: runtime === '' ? ['disk'] : ['disk', 'pids'],
  strongest: 'sandbox',
  ...chosen,
}
let without = { ...missingPrograms(), ...DOCKER }
// Without a process limit the fork bomb would hit the engine's machine.
await inBox(await subject.open(), subject, {}, async ({ machine }) => {
  if (machine.unenforced.includes('pids'))
    without = { ...without, 'a fork bomb stops at the process limit, and the machine keeps running': 'no limit' }
})
await report(subject, without, wanted)
rmSync(dataDir, { recursive: true, force: true })
process.exit(0)
