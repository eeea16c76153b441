import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'
import { conformance } from '../conformance.ts'
import { DOCKER } from '../limitations.ts'
import { openDocker } from './backend.ts'
import { testEngine } from './engine.fixture.ts'

const runnerPath = fileURLToPath(new URL('../../../../../runner/bin/runner', import.meta.url))
const starter = fileURLToPath(new URL('./starter.fixture.ts', import.meta.url))
const engine = await testEngine()
const dataDir = mkdtempSync(join(tmpdir(), 'sandglass-docker-'))
afterAll(async () => {
  await engine.stop()
  rmSync(dataDir, { recursive: true, force: true })
})

const options = { dataDir, runnerPath, endpoint: engine.endpoint }
conformance(
  'docker',
  {
    open: async () => openDocker(options),
    starter: [process.execPath, starter, JSON.stringify(options)],
    allowUnenforced: ['disk'],
    strongest: 'sandbox',
  },
  DOCKER,
)
