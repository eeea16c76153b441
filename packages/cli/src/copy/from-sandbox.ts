import { once } from 'node:events'
import { lstat, mkdir, open, rename, rmdir, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/sdk'
import { saveTo } from '@sandglass/sdk/node'
import { type Copied, type Copying, namedBelow, type Remote } from './copying.ts'
import { wholeOrNone } from './half-made.ts'
import { endsInSlash, nameOf } from './location.ts'
import { relayTar } from './read-tar.ts'
import { lookAtSource } from './remote.ts'
import { requireRoom, withinRoom } from './room.ts'
import { HERE } from './sides.ts'
import { unpack } from './unpack.ts'

/** Copies a file or folder out of a sandbox. SECURITY: names and contents are the sandbox's; see unpack. */
export async function copyFromSandbox(from: Remote, to: string, copying: Copying): Promise<Copied> {
  const { session, path } = from
  const source = await lookAtSource(from, copying)
  const isInto = await isHostFolder(to)
  if (source.kind === 'file') {
    if (endsInSlash(to) && !isInto) throw new SandglassError('FILE_NOT_FOUND', { path: to, where: HERE })
    const target = isInto ? join(to, nameOf(path)) : to
    await downloadFile(from, source.info, target, copying)
    return { entries: 1, target }
  }
  const target = isInto && !path.endsWith('/.') ? join(to, nameOf(path)) : to
  const archive = await session.files.getArchive(path, { onUnreadable: 'skip', ...copying.user })
  copying.progress.begin(path)
  const fill = (folder: string) => unpack(copying.progress.through(archive), folder, namedBelow(path, copying))
  return { entries: (await isTargetThere(target)) ? await fill(target) : await fillNew(target, fill), target }
}

/** A file as it is, or a folder as a tar, to stdout. */
export async function copyToStdout(from: Remote, copying: Copying): Promise<void> {
  const { session, path } = from
  const { progress, user } = copying
  const source = await lookAtSource(from, copying)
  progress.begin(path, source.kind === 'file' ? source.info.size : undefined)
  if (source.kind === 'file') {
    await pipeline(progress.through(await session.files.download(path, user)), process.stdout, { end: false })
    return
  }
  const archive = await session.files.getArchive(path, { onUnreadable: 'skip', ...user })
  const write = async (piece: Uint8Array) => {
    if (!process.stdout.write(piece)) await once(process.stdout, 'drain')
  }
  await relayTar(progress.through(archive), write, namedBelow(path, copying))
}

/** Written beside the target under a name that nobody else has, and moved there whole. */
async function downloadFile(
  { session, path }: Remote,
  { mode, size }: { mode: string; size: number },
  target: string,
  { progress, user }: Copying,
): Promise<void> {
  await requireRoom(dirname(target), target, size)
  const body = await session.files.download(path, user)
  progress.begin(path, size)
  const partial = besideOf(target)
  // SECURITY: set-id bits are dropped. Rename replaces a link of that name and does not write through it.
  const make = () => open(partial, 'wx', Number.parseInt(mode, 8) & 0o777)
  await wholeOrNone(partial, make, async made => {
    await using file = made
    await saveTo(file, progress.through(withinRoom(body, dirname(target), target, size)))
    await rename(partial, target)
  })
}

/** A folder that is not there yet is filled under another name, so that a copy that fails leaves nothing that the next one would go into. */
async function fillNew(target: string, fill: (folder: string) => Promise<number>): Promise<number> {
  const path = resolve(target)
  const firstMade = await mkdir(dirname(path), { recursive: true })
  const partial = besideOf(path)
  let entries = 0
  try {
    await wholeOrNone(
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

/** From the deepest one up; one that somebody else has put something in stays. */
async function removeEmpty(deepest: string, first: string): Promise<void> {
  for (let folder = deepest; folder.startsWith(first); folder = dirname(folder)) {
    const isGone = await rmdir(folder).then(
      () => true,
      () => false,
    )
    if (!isGone) return
  }
}

const besideOf = (target: string) => join(dirname(target), `.${basename(target).slice(0, 200)}.${crypto.randomUUID()}.part`)

async function isTargetThere(target: string): Promise<boolean> {
  const found = await lstat(target).catch(absent)
  // SECURITY: the last part of the target may be a name from the sandbox; a link of that name is not followed.
  if (found && !found.isDirectory()) throw new SandglassError('NOT_A_DIRECTORY', { path: target })
  return found !== undefined
}

export async function isHostFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(absent))?.isDirectory() === true
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
