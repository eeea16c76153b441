import { constants, type Stats } from 'node:fs'
import { type FileHandle, lstat, open, readdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { SandglassError } from '@sandglass/contract/tables'
import { DeepPaths } from './deep-paths.ts'
import { BLOCK, encodeHeader, padding, type TarEntry } from './tar-header.ts'

export type PackOptions = {
  /** Says of a path below the folder whether it is packed. What is in a folder that is not is looked at only where `entersAll`. */
  isPacked?: (path: string) => boolean
  entersAll?: boolean
  /** Leaves out what cannot be read and gets its path and the reason, instead of stopping there. */
  onUnreadable?: (what: string) => void
  /** Files that are not in the folder. */
  more?: readonly { name: string; content: Buffer }[]
}

/** A tar of what is in a folder of this machine, as it is read. Sockets, pipes and devices are left out; `onSkip` gets kind and path. */
export async function* pack(
  folder: string,
  onSkip: (what: string) => void,
  options: PackOptions = {},
): AsyncGenerator<Buffer, void, undefined> {
  await using paths = new DeepPaths(folder)
  yield* packFolders({ folder, paths, onSkip, ...options })
  for (const { name, content } of options.more ?? []) {
    yield encodeHeader({ name, type: 'file', mode: 0o644, modifiedAt: 0, size: content.length })
    yield Buffer.concat([content, Buffer.alloc(padding(content.length))])
  }
  yield Buffer.alloc(2 * BLOCK)
}

type Packing = PackOptions & { folder: string; paths: DeepPaths; onSkip: (what: string) => void }

/** One folder after the other, those in it after what else is in it: however deep they lie, only one is open. */
async function* packFolders(packing: Packing): AsyncGenerator<Buffer, void, undefined> {
  const { isPacked = () => true, entersAll = false } = packing
  const pending = ['']
  for (let prefix = pending.pop(); prefix !== undefined; prefix = pending.pop()) {
    const folder = prefix.slice(0, -1)
    const found = await attempt(packing, folder, async path => ({ stats: await lstat(path), names: await readdir(path) }))
    if (found === undefined) continue
    if (folder !== '' && isPacked(folder)) yield encodeHeader({ ...entryOf(folder, found.stats), type: 'directory' })
    const folders: string[] = []
    for (const name of found.names.map(name => prefix + name)) {
      const isIn = isPacked(name)
      if (!isIn && !entersAll) continue
      const stats = await attempt(packing, name, path => lstat(path))
      if (stats?.isDirectory()) folders.push(`${name}/`)
      else if (stats && isIn) yield* packEntry(packing, name, stats)
    }
    pending.push(...folders.reverse())
  }
}

/** What is no folder. */
async function* packEntry(packing: Packing, name: string, stats: Stats): AsyncGenerator<Buffer, void, undefined> {
  if (stats.isSymbolicLink()) {
    const target = await attempt(packing, name, path => readlink(path))
    if (target !== undefined) yield encodeHeader({ ...entryOf(name, stats), type: 'symlink', target })
    return
  }
  if (!stats.isFile()) {
    packing.onSkip(`${kindOf(stats)} ${join(packing.folder, name)}`)
    return
  }
  // Not blocking, for a pipe that took its place meanwhile.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await attempt(packing, name, path => open(path, flags))
  if (file === undefined) return
  try {
    const { size } = await file.stat()
    yield encodeHeader({ ...entryOf(name, stats), type: 'file', size })
    yield* contents(file, join(packing.folder, name), size)
  } finally {
    await file.close()
  }
}

/** Undefined for what is gone, and for what cannot be read where that is told. */
async function attempt<T>(packing: Packing, name: string, read: (path: string) => Promise<T>): Promise<T | undefined> {
  try {
    return await read(await packing.paths.to(name))
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (packing.onUnreadable === undefined || name === '') throw error
    if (code !== 'ENOENT') packing.onUnreadable(`${join(packing.folder, name)}: ${REASONS[code ?? ''] ?? message}`)
  }
}

const REASONS: Readonly<Record<string, string>> = { EACCES: 'permission denied', EPERM: 'permission denied' }

const entryOf = (name: string, { mode, mtimeMs }: Stats): Omit<TarEntry, 'type'> => ({ name, mode, modifiedAt: mtimeMs, size: 0 })

const kindOf = (stats: Stats) => (stats.isSocket() ? 'socket' : stats.isFIFO() ? 'pipe' : 'device')

/** Exactly the bytes that the header promised: a file that grows is cut, and one that shrinks is an error. */
async function* contents(file: FileHandle, path: string, size: number): AsyncGenerator<Buffer, void, undefined> {
  let sent = 0
  if (size > 0) {
    for await (const piece of file.createReadStream({ end: size - 1, highWaterMark: 256 * 1024, autoClose: false })) {
      sent += piece.length
      yield piece
    }
  }
  if (sent < size) {
    throw new SandglassError('SOURCE_FAILED', { path, why: `it became shorter meanwhile, ${sent} bytes of ${size}` })
  }
  if (padding(size) > 0) yield Buffer.alloc(padding(size))
}
