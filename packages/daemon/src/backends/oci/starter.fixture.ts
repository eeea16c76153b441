// Plays the daemon in tests that kill it: prints `starting`, starts a machine, prints `started`, and waits to be killed.
import type { MachineSpec } from '../backend.ts'
import { openOci } from './backend.ts'

const [dataDir = '', runtime = '', runnerPath = '', spec = ''] = process.argv.slice(2)
const backend = await openOci({ dataDir, runtime, runnerPath })
process.stdout.write('starting\n')
await backend.start(JSON.parse(spec) as MachineSpec, AbortSignal.timeout(20_000))
process.stdout.write('started\n')
setInterval(() => process.stdout.write(''), 60_000)
