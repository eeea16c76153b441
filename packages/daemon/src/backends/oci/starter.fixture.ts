// Says that it starts a machine, and that it has, and waits to be killed: the daemon's part in tests of its death.
import type { MachineSpec } from '../backend.ts'
import { openOci } from './backend.ts'

const [dataDir = '', runtime = '', runnerPath = '', spec = ''] = process.argv.slice(2)
const backend = await openOci({ dataDir, runtime, runnerPath })
process.stdout.write('starting\n')
await backend.start(JSON.parse(spec) as MachineSpec, AbortSignal.timeout(20_000))
process.stdout.write('started\n')
setInterval(() => process.stdout.write(''), 60_000)
