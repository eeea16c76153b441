import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { canCutPower, cuttableDisk } from '../testing/power-cut.fixture.ts'
import { renameDurably } from './durable-rename.ts'

test.runIf(canCutPower)('a renamed file or folder is complete after a power cut', async () => {
  const { folder, cut } = await cuttableDisk()
  await writeFile(join(folder, 'file.new'), 'content')
  await mkdir(join(folder, 'folder.new/inner'), { recursive: true })
  await writeFile(join(folder, 'folder.new/inner/file'), 'content')
  for (const name of ['file', 'folder']) await renameDurably(join(folder, `${name}.new`), join(folder, name))
  const after = await cut()
  expect(await readdir(after)).not.toContain('file.new')
  for (const path of ['file', 'folder/inner/file']) expect(await readFile(join(after, path), 'utf8')).toBe('content')
})
