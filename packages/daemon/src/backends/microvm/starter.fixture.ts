// Stands in for a daemon that is killed: prints `starting`, starts a machine, prints `started`, and waits.
import type { MachineSpec } from '../backend.ts'
import { openMicrovm } from './backend.ts'

const [options = '', spec = ''] = process.argv.slice(2)
const backend = openMicrovm(JSON.parse(options))
process.stdout.write('starting\n')
await backend.start(JSON.parse(spec) as MachineSpec, AbortSignal.timeout(60_000))
process.stdout.write('started\n')
setInterval(() => process.stdout.write(''), 60_000)
