// The context of a test file: a private engine, a data folder, and a backend that uses both. They are removed when the file ends.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'
import { openDocker } from './backend.ts'
import { testEngine } from './engine/engine.fixture.ts'

export const runnerPath = fileURLToPath(new URL('../../../../../runner/bin/runner', import.meta.url))

export async function dockerContext(...flags: string[]) {
  const engine = await testEngine(...flags)
  const dataDir = mkdtempSync(join(tmpdir(), 'sandglass-docker-'))
  afterAll(async () => {
    await engine.stop()
    rmSync(dataDir, { recursive: true, force: true })
  })
  const options = { dataDir, runnerPath, endpoint: engine.endpoint }
  const open = async () => openDocker(options)
  return { engine, dataDir, options, subject: { open, starter: [], allowUnenforced: ['disk'], strongest: 'sandbox' } as const }
}
