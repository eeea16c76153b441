import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'
import { conformance } from '../conformance/suite.ts'
import { WITHOUT_SYS_RESOURCE } from '../limitations.ts'
import { openOci } from './backend.ts'
import { mayLimitProcesses } from './probe.ts'

const runnerPath = fileURLToPath(new URL('../../../../../runner/bin/runner', import.meta.url))
const starter = fileURLToPath(new URL('./starter.fixture.ts', import.meta.url))

for (const runtime of ['crun', 'runc']) {
  const dataDir = mkdtempSync(join(tmpdir(), 'sandglass-oci-'))
  afterAll(() => rmSync(dataDir, { recursive: true, force: true }))
  conformance(
    `oci with ${runtime}`,
    {
      open: () => openOci({ dataDir, runtime, runnerPath }),
      starter: [process.execPath, starter, dataDir, runtime, runnerPath],
      allowUnenforced: [],
    },
    mayLimitProcesses() ? {} : WITHOUT_SYS_RESOURCE,
  )
}
