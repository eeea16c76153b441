// `cp` out of a session.
import { once } from 'node:events'
import { lstat, mkdir, open, rename, rmdir, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/sdk'
import { saveTo } from '@sandglass/sdk/node'
import { createAtomically } from './atomic-create.ts'
import { type CopyContext, type CopyResult, type RemotePath, withPathPrefix } from './copy-context.ts'
import { endsInSlash, HERE, nameOf } from './endpoint.ts'
import { requireFreeSpace, withinFreeSpace } from './free-space.ts'
import { relayTar } from './read-tar.ts'
import { requireRemote } from './remote.ts'
import { unpack } from './unpack.ts'

/** Copies a file or folder from a session to this machine. SECURITY: the sandbox chooses names and contents; see unpack. */
export async function copyFromSandbox(from: RemotePath, to: string, copy: CopyContext): Promise<CopyResult> {
  const { session, path } = from
  const source = await requireRemote(from, copy)
  const isInto = await isHostFolder(to)
  if (source.kind === 'file') {
    if (endsInSlash(to) && !isInto) throw new SandglassError('FILE_NOT_FOUND', { path: to, where: HERE })
    const target = isInto ? join(to, nameOf(path)) : to
    await downloadFile(from, source.info, target, copy)
    return { entries: 1, target }
  }
  const target = isInto && !path.endsWith('/.') ? join(to, nameOf(path)) : to
  const archive = await session.files.getArchive(path, { onUnreadable: 'skip', ...copy.user })
  copy.progress.begin(path)
  const fill = (folder: string) => unpack(copy.progress.through(archive), folder, withPathPrefix(path, copy))
  return { entries: (await isExistingFolder(target)) ? await fill(target) : await fillNew(target, fill), target }
}

/** Writes a file as it is, or a folder as a tar, to stdout. */
export async function copyToStdout(from: RemotePath, copy: CopyContext): Promise<void> {
  const { session, path } = from
  const { progress, user } = copy
  const source = await requireRemote(from, copy)
  progress.begin(path, source.kind === 'file' ? source.info.size : undefined)
  if (source.kind === 'file') {
    await pipeline(progress.through(await session.files.download(path, user)), process.stdout, { end: false })
    return
  }
  const archive = await session.files.getArchive(path, { onUnreadable: 'skip', ...user })
  const write = async (piece: Uint8Array) => {
    if (!process.stdout.write(piece)) await once(process.stdout, 'drain')
  }
  await relayTar(progress.through(archive), write, withPathPrefix(path, copy))
}

/** Writes the file under a unique name beside the target, then renames it into place. */
async function downloadFile(
  { session, path }: RemotePath,
  { mode, size }: { mode: string; size: number },
  target: string,
  { progress, user }: CopyContext,
): Promise<void> {
  await requireFreeSpace(dirname(target), target, size)
  const body = await session.files.download(path, user)
  progress.begin(path, size)
  const partial = partialPath(target)
  // SECURITY: set-id bits are dropped. Rename replaces a link that has the target's name; it does not write through it.
  const create = () => open(partial, 'wx', Number.parseInt(mode, 8) & 0o777)
  await createAtomically(partial, create, async created => {
    await using file = created
    await saveTo(file, progress.through(withinFreeSpace(body, dirname(target), target, size)))
    await rename(partial, target)
  })
}

/** Fills a new folder under a unique name, then renames it: a failed copy leaves no folder that the next copy would be put into. */
async function fillNew(target: string, fill: (folder: string) => Promise<number>): Promise<number> {
  const path = resolve(target)
  const firstMade = await mkdir(dirname(path), { recursive: true })
  const partial = partialPath(path)
  let entries = 0
  try {
    await createAtomically(
      partial,
      () => mkdir(partial),
      async () => {
        entries = await fill(partial)
        await rename(partial, path)
      },
    )
  } catch (error) {
    if (firstMade !== undefined) await removeEmpty(dirname(path), firstMade)
    throw error
  }
  return entries
}

/** Removes the folders from `deepest` up to `first`, and stops at one that is not empty. */
async function removeEmpty(deepest: string, first: string): Promise<void> {
  for (let folder = deepest; folder.startsWith(first); folder = dirname(folder)) {
    const isGone = await rmdir(folder).then(
      () => true,
      () => false,
    )
    if (!isGone) return
  }
}

const partialPath = (target: string) => join(dirname(target), `.${basename(target).slice(0, 200)}.${crypto.randomUUID()}.part`)

async function isExistingFolder(target: string): Promise<boolean> {
  const found = await lstat(target).catch(absent)
  // SECURITY: the last part of the target may be a name from the sandbox, so a link with that name is not followed.
  if (found && !found.isDirectory()) throw new SandglassError('NOT_A_DIRECTORY', { path: target })
  return found !== undefined
}

export async function isHostFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(absent))?.isDirectory() === true
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
