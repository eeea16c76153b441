import { fileURLToPath } from 'node:url'
import { conformance } from '../conformance/suite.ts'
import { WITHOUT_SYS_RESOURCE } from '../limitations.ts'
import { ociDataDir, openTestOci } from './oci.fixture.ts'
import { mayLimitProcesses } from './probe.ts'

const runnerPath = fileURLToPath(new URL('../../../../../runner/bin/runner', import.meta.url))
const starter = fileURLToPath(new URL('./starter.fixture.ts', import.meta.url))

for (const runtime of ['crun', 'runc']) {
  const dataDir = ociDataDir()
  conformance(
    `oci with ${runtime}`,
    {
      open: () => openTestOci({ dataDir, runtime, runnerPath }),
      starter: [process.execPath, starter, dataDir, runtime, runnerPath],
      allowUnenforced: [],
    },
    mayLimitProcesses() ? {} : WITHOUT_SYS_RESOURCE,
  )
}
