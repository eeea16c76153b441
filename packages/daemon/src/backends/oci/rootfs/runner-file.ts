// A copy of the runner in the data folder, in a folder of its own that is mounted into sandboxes. Every sandbox can read it, whatever the modes
// of the installation, and an upgrade does not change it while machines run.
import { createHash } from 'node:crypto'
import { chmod, copyFile, lstat, mkdir, readFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { renameDurably } from '../../../lib/durable-rename.ts'
import { nullIfMissing } from '../../../lib/missing-file.ts'

/** Earlier versions had the file itself, under the name without v2. */
const RUNNER_FOLDER = 'runner-v2-'
/** As in RUNNER_PATH. */
const NAME = 'runner'

/** Returns the path of the copy. */
export async function placeRunner(runnerPath: string, imagesDir: string): Promise<string> {
  const digest = createHash('sha256')
    .update(await readFile(runnerPath))
    .digest('hex')
  const folder = join(imagesDir, `${RUNNER_FOLDER}${digest.slice(0, 16)}`)
  const path = join(folder, NAME)
  if ((await lstat(path).catch(nullIfMissing)) !== null) return path
  await mkdir(folder, { recursive: true })
  await chmod(folder, 0o755)
  const building = `${folder}.${process.pid}.new`
  await copyFile(runnerPath, building)
  await chmod(building, 0o755)
  await renameDurably(building, path)
  return path
}

/** The name below images/ of the folder with a runner, as a machine's record has it. */
export const runnerName = (runnerFile: string): string => basename(dirname(runnerFile))
