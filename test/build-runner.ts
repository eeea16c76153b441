// Before any test: builds the runner and the launcher from their sources. If that fails, the reason is on stderr and the tests that need
// them fail; the others still run.
import { spawnSync } from 'node:child_process'

export default function buildRunner(): void {
  spawnSync('tools/dev', ['runner'], { stdio: ['ignore', 'ignore', 'inherit'] })
}
