// Files and folders in a folder that becomes `/`, or lies over it. Every user can read them: no id of a sandbox owns them.
import { chmod, lstat, mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { nullIfMissing } from '../../lib/missing-file.ts'

/** By path in the sandbox, without links. SECURITY: a link in the folder may lead to a file of the host, so links are replaced and not followed. */
export async function writeFiles(root: string, files: ReadonlyMap<string, Buffer>): Promise<void> {
  for (const [path, content] of files) {
    await makeParents(root, dirname(path))
    const file = join(root, path)
    await rm(file, { force: true })
    await writeFile(file, content, { flag: 'wx' })
    await chmod(file, 0o644)
  }
}

async function makeParents(root: string, path: string): Promise<void> {
  if (path === '/') return
  await makeParents(root, dirname(path))
  const folder = join(root, path)
  const info = await lstat(folder).catch(nullIfMissing)
  if (info?.isDirectory()) return
  await rm(folder, { force: true })
  await folderForAll(folder)
}

/** Creates a folder whatever the daemon's umask is. */
export async function folderForAll(path: string): Promise<void> {
  await mkdir(path, { recursive: true })
  await chmod(path, 0o755)
}
