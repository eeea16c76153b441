import { once } from 'node:events'
import { lstat, mkdir, open, rename, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { SandglassError, type Session } from '@sandglass/sdk'
import { saveTo } from '@sandglass/sdk/node'
import { wholeOrNone } from './half-file.ts'
import { endsInSlash, nameOf } from './location.ts'
import type { Progress } from './progress.ts'
import { requireRoom, withinRoom } from './room.ts'
import { HERE } from './sides.ts'
import { type UnpackOptions, unpack } from './unpack.ts'
import { tarEntries } from './unpack-entries.ts'

export type Copied = { entries: number; target: string }

/** Copies a file or folder out of a sandbox. SECURITY: names and contents are the sandbox's; see unpack. */
export async function copyFromSandbox(
  session: Session,
  path: string,
  to: string,
  progress: Progress,
  options: UnpackOptions,
): Promise<Copied> {
  if (await isFolder(session, path)) {
    const target = (await isHostFolder(to)) && !path.endsWith('/.') ? join(to, nameOf(path)) : to
    await makeTarget(target)
    const entries = await unpack(progress.through(await session.files.getArchive(path)), target, options)
    return { entries, target }
  }
  const isInto = await isHostFolder(to)
  if (endsInSlash(to) && !isInto) throw new SandglassError('FILE_NOT_FOUND', { path: to, where: HERE })
  const target = isInto ? join(to, nameOf(path)) : to
  await downloadFile(session, path, target, progress)
  return { entries: 1, target }
}

/** A file as it is, or a folder as a tar, to stdout. */
export async function copyToStdout(
  session: Session,
  path: string,
  progress: Progress,
  onLeftOut: (what: string) => void,
): Promise<void> {
  if (!(await isFolder(session, path))) {
    await pipeline(progress.through(await session.files.download(path)), process.stdout, { end: false })
    return
  }
  // The tar is read as it passes, for what was left out of it. One that cannot be read here goes out all the same.
  const tar = passing(progress.through(await session.files.getArchive(path)))
  try {
    for await (const _ of tarEntries(tar, onLeftOut));
  } catch (error) {
    if (!(error instanceof SandglassError && error.is('ARCHIVE_UNSAFE'))) throw error
  }
  for await (const _ of tar);
}

async function* passing(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of source) {
    if (!process.stdout.write(piece)) await once(process.stdout, 'drain')
    yield piece
  }
}

/** A link is followed inside the sandbox, so what it leads to decides. */
async function isFolder(session: Session, path: string): Promise<boolean> {
  const { type } = await session.files.stat(path)
  if (type !== 'symlink') return type === 'directory'
  try {
    await session.files.list(path, { maxEntries: 1 })
    return true
  } catch (error) {
    if (error instanceof SandglassError && error.is('NOT_A_DIRECTORY')) return false
    throw error
  }
}

/** Written beside the target under a name that nobody else has, and moved there whole. */
async function downloadFile(session: Session, path: string, target: string, progress: Progress): Promise<void> {
  const { mode, size } = await session.files.stat(path)
  await requireRoom(dirname(target), target, size)
  const body = await session.files.download(path)
  const partial = join(dirname(target), `.${basename(target)}.${crypto.randomUUID()}.part`)
  // SECURITY: set-id bits are dropped. Rename replaces a link of that name and does not write through it.
  const make = () => open(partial, 'wx', Number.parseInt(mode, 8) & 0o777)
  await wholeOrNone(partial, make, async file => {
    await saveTo(file, progress.through(withinRoom(body, dirname(target), target, size)))
    await rename(partial, target)
  })
}

async function makeTarget(target: string): Promise<void> {
  const found = await lstat(target).catch(absent)
  if (!found) await mkdir(target, { recursive: true })
  // SECURITY: the last part of the target may be a name from the sandbox; a link of that name is not followed.
  else if (!found.isDirectory()) throw new SandglassError('NOT_A_DIRECTORY', { path: target })
}

async function isHostFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(absent))?.isDirectory() === true
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
