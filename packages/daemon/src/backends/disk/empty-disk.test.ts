import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../testing/daemon.fixture.ts'
import { runTool } from './empty-disk.ts'

async function failing(said: string): Promise<string> {
  const path = join(await temporaryFolder(), 'mke2fs')
  await writeFile(path, `#!/bin/sh\nprintf '%s\\n' "mke2fs 1.47" ${JSON.stringify(said)} >&2\nexit 1\n`, { mode: 0o755 })
  return path
}

test('the error of a failed program has the last line of its stderr and not its arguments', async () => {
  await expect(runTool(await failing('no such type'), ['-q', '/some/path'])).rejects.toThrow(/^mke2fs failed: no such type$/)
  await expect(runTool('/no/such/program', [])).rejects.toThrow(/^program failed: .*ENOENT/)
})

test('a program that finds the disk full fails with HOST_FULL', async () => {
  const mke2fs = await failing('mke2fs: No space left on device while writing')
  await expect(runTool(mke2fs, [])).rejects.toMatchObject({ code: 'HOST_FULL' })
})
