// For tests: oci backends on a data folder that is removed after all tests of the file.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import type { Backend } from '../backend.ts'
import { type OciOptions, openOci } from './backend.ts'

const opened: Backend[] = []

export async function openTestOci(options: OciOptions): Promise<Backend> {
  const backend = await openOci(options)
  opened.push(backend)
  return backend
}

/** A new data folder. Before it is removed, all backends are closed: a waiting launcher writes a disk there. */
export function ociDataDir(): string {
  const dataDir = mkdtempSync(join(tmpdir(), 'sandglass-oci-'))
  afterAll(async () => {
    await Promise.all(opened.splice(0).map(backend => backend.close?.()))
    rmSync(dataDir, { recursive: true, force: true })
  })
  return dataDir
}
