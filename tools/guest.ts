// `tools/dev guest [--whole] [WORD…]`: what only a host with unified cgroups and systemd can show, tried in a guest of QEMU's.
//   --whole    every check of the conformance suite, with both runtimes, as root and as an ordinary user: half an hour
//   WORD…      only suites whose name contains one of them, long ones as well
import { parseArgs } from 'node:util'
import { runGuest } from './guest/run.ts'

const { values, positionals } = parseArgs({ options: { whole: { type: 'boolean', default: false } }, allowPositionals: true })

const began = performance.now()
const seconds = () => ((performance.now() - began) / 1000).toFixed(1).padStart(7)
let [passed, failed] = [0, 0]
const ended = runGuest(
  { whole: values.whole, words: positionals },
  ({ suite, title, error, ms }) => {
    if (error === null) passed++
    else failed++
    console.log(`${seconds()} s  ${error === null ? 'ok  ' : 'FAIL'} ${suite}: ${title} (${(ms / 1000).toFixed(1)} s)`)
    if (error !== null) console.log(error.replace(/^/gm, '              '))
  },
  step => console.log(`${seconds()} s  ${step}`),
)
await ended.catch((error: Error) => {
  failed++
  console.log(`${seconds()} s  FAIL ${error.message}`)
})
console.log(`${seconds()} s  ${passed} passed, ${failed} failed`)
process.exitCode = failed > 0 || passed === 0 ? 1 : 0
