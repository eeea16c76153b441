// A copy of the runner in the data folder, in a folder of its own that sandboxes are shown: readable by every sandbox whatever the modes of the installation, and unchanged by upgrades
// while machines run.
import { createHash } from 'node:crypto'
import { chmod, copyFile, lstat, mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { renameDurably } from '../../../lib/durable-rename.ts'
import { isMissing } from '../../../lib/missing-file.ts'

/** Earlier versions had the file itself under the name without v2. */
const RUNNER_FOLDER = 'runner-v2-'
/** As in RUNNER_PATH. */
const NAME = 'runner'

export async function placeRunner(runnerPath: string, imagesDir: string): Promise<string> {
  const digest = createHash('sha256')
    .update(await readFile(runnerPath))
    .digest('hex')
  const folder = join(imagesDir, `${RUNNER_FOLDER}${digest.slice(0, 16)}`)
  const path = join(folder, NAME)
  const found = await lstat(path).catch(error => {
    if (isMissing(error)) return null
    throw error
  })
  if (found !== null) return path
  await mkdir(folder, { recursive: true })
  await chmod(folder, 0o755)
  const building = `${folder}.${process.pid}.new`
  await copyFile(runnerPath, building)
  await chmod(building, 0o755)
  await renameDurably(building, path)
  return path
}
