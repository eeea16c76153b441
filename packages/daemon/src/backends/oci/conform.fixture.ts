// The conformance suite as a plain program, for hosts without a test runner. Prints a line of JSON for each check.
// Arguments: path of the runtime, path of the runner, path of starter.fixture.ts, and the titles of checks to run (default: all). As an ordinary
// user it runs itself again inside a user namespace, as the daemon does.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { missingPrograms } from '../conformance/programs.ts'
import { report } from '../conformance/report.ts'
import type { Subject } from '../conformance/subject.ts'
import { ORDINARY_USER, RUNSC } from '../limitations.ts'
import { openOci } from './backend.ts'
import { inUserNamespace, userNamespaceArgv } from './users/enter-userns.ts'

const [runtime = '', runnerPath = '', starter = '', ...wanted] = process.argv.slice(2)
const inside = userNamespaceArgv([process.execPath, ...process.argv.slice(1)], '/nonexistent', runnerPath)
if (inside?.[0] !== undefined) process.execve?.(inside[0], inside)

const isGvisor = basename(runtime) === 'runsc'
const dataDir = mkdtempSync(join(tmpdir(), 'sandglass-oci-'))
const subject: Subject = {
  open: () => openOci({ dataDir, runtime, runnerPath }),
  starter: [process.execPath, starter, dataDir, runtime, runnerPath],
  allowUnenforced: [],
  patience: isGvisor ? 2 : 1,
}
const without = { ...missingPrograms(), ...(inUserNamespace() ? ORDINARY_USER : {}), ...(isGvisor ? RUNSC : {}) }
await report(subject, without, wanted)
rmSync(dataDir, { recursive: true, force: true })
process.exit(0)
