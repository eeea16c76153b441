// Runs in the guest, as root, once it has booted: tries each suite, and says on the serial line how every part of it went.
import { existsSync, readFileSync } from 'node:fs'
import { conform, GVISOR, LIMITS, MOST } from './inside/conform.ts'
import { attempt } from './inside/report.ts'
import { CLONE, loggedIn } from './inside/run.ts'
import { loginSteps, ownSteps, systemSteps } from './inside/steps.ts'
import type { Plan } from './run.ts'

/** A suite that is long is run when all are, or when it is asked for. */
type Suite = { isLong?: true; run(suite: string, whole: boolean): Promise<void> }

const RUNSC = `${CLONE}/.cache/gvisor/runsc`

const SUITES: Record<string, Suite> = {
  'oci with crun, as root': { run: (suite, whole) => conform(suite, ['crun'], [], whole ? [] : MOST) },
  'oci with runc, as root': { isLong: true, run: suite => conform(suite, ['runc'], [], []) },
  'oci with runsc, as root': {
    isLong: true,
    run: async (suite, whole) => {
      if (existsSync(RUNSC)) await conform(suite, [RUNSC], [], whole ? [] : GVISOR)
      else throw new Error('setup could not fetch gVisor')
    },
  },
  'oci with crun, as an ordinary user who logged in': {
    run: (suite, whole) => conform(suite, ['crun'], loggedIn, whole ? [] : LIMITS),
  },
  'oci with runc, as an ordinary user who logged in': { isLong: true, run: suite => conform(suite, ['runc'], loggedIn, []) },
  'a daemon that the command line started for a user who logged in': { run: loginSteps },
  'a service of the system': { run: systemSteps },
  'a service of an ordinary user': { run: ownSteps },
}

const { whole, words }: Plan = JSON.parse(readFileSync(`${CLONE}/guest/plan.json`, 'utf8'))
for (const [suite, { isLong, run }] of Object.entries(SUITES)) {
  const isAsked = words.some(word => suite.includes(word))
  if (isAsked || (words.length === 0 && (whole || !isLong))) await attempt(suite, 'runs to its end', () => run(suite, whole))
}
