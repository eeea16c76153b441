import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../testing/daemon.fixture.ts'
import { runTool } from './run-tool.ts'

async function failing(said: string): Promise<string> {
  const path = join(await temporaryFolder(), 'mke2fs')
  await writeFile(path, `#!/bin/sh\nprintf '%s\\n' "mke2fs 1.47" ${JSON.stringify(said)} >&2\nexit 1\n`, { mode: 0o755 })
  return path
}

test('of a program that fails the last that it said is told, not how it was called', async () => {
  await expect(runTool(await failing('no such type'), ['-q', '/some/path'])).rejects.toThrow(/^mke2fs failed: no such type$/)
  await expect(runTool('/no/such/program', [])).rejects.toThrow(/^program failed: .*ENOENT/)
})

test('one that finds no room says so', async () => {
  const mke2fs = await failing('mke2fs: No space left on device while writing')
  await expect(runTool(mke2fs, [])).rejects.toMatchObject({ code: 'HOST_FULL' })
})
