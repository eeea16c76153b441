// A copy of the runner in the data folder: readable by every sandbox whatever the modes of the installation, and unchanged by upgrades
// while machines run.
import { createHash } from 'node:crypto'
import { chmod, copyFile, lstat, mkdir, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing } from './record.ts'

export async function placeRunner(runnerPath: string, imagesDir: string): Promise<string> {
  const digest = createHash('sha256')
    .update(await readFile(runnerPath))
    .digest('hex')
  const path = join(imagesDir, `runner-${digest.slice(0, 16)}`)
  const found = await lstat(path).catch(error => {
    if (isMissing(error)) return null
    throw error
  })
  if (found !== null) return path
  await mkdir(imagesDir, { recursive: true, mode: 0o700 })
  const building = `${path}.${process.pid}.new`
  await copyFile(runnerPath, building)
  await chmod(building, 0o755)
  await rename(building, path)
  return path
}
