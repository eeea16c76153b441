// Copies of the runner and of the launcher in the data folder, each in a folder of its own. Upgrades do not change them while machines run.
// The runner's folder is mounted in sandboxes, and every sandbox can read it whatever the modes of the installation are.
import { createHash } from 'node:crypto'
import { chmod, copyFile, lstat, mkdir, readFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { renameDurably } from '../../../lib/durable-rename.ts'
import { nullIfMissing } from '../../../lib/missing-file.ts'

/** `name` is the file's name in its folder, for the runner as in RUNNER_PATH. Earlier versions had a file without v2 in place of the folder. */
export async function placeProgram(name: 'runner' | 'launcher', source: string, imagesDir: string): Promise<string> {
  const digest = createHash('sha256')
    .update(await readFile(source))
    .digest('hex')
  const folder = join(imagesDir, `${name}-v2-${digest.slice(0, 16)}`)
  const path = join(folder, name)
  if ((await lstat(path).catch(nullIfMissing)) !== null) return path
  await mkdir(folder, { recursive: true })
  await chmod(folder, 0o755)
  const building = `${folder}.${process.pid}.new`
  await copyFile(source, building)
  await chmod(building, 0o755)
  await renameDurably(building, path)
  return path
}

/** The name below images/ of the folder of a placed program, as a machine record has it. */
export const programFolder = (path: string): string => basename(dirname(path))
