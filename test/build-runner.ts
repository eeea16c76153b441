// Before any test: the runner is built from the sources that are there. Where it does not build, the reason is on
// stderr and the tests that need it fail; the others still run.
import { spawnSync } from 'node:child_process'

export default function buildRunner(): void {
  spawnSync('tools/dev', ['runner'], { stdio: ['ignore', 'ignore', 'inherit'] })
}
