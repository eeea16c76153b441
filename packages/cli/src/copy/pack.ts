import { createReadStream, type Stats } from 'node:fs'
import { lstat, opendir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { SandglassError } from '@sandglass/contract/tables'
import { BLOCK, encodeHeader, padding } from './tar-header.ts'

export type PackOptions = {
  /** Says of a path below the folder whether it is packed. What is in a folder that is not is looked at only where `entersAll`. */
  isPacked?: (path: string) => boolean
  entersAll?: boolean
  /** Files that are not in the folder. */
  more?: readonly { name: string; content: Buffer }[]
}

/** A tar of what is in a folder of this machine, as it is read. Sockets, pipes and devices are left out; `onSkip` gets kind and path. */
export async function* pack(
  folder: string,
  onSkip: (what: string) => void,
  options: PackOptions = {},
): AsyncGenerator<Buffer, void, undefined> {
  yield* packFolder(folder, '', onSkip, options)
  for (const { name, content } of options.more ?? []) {
    yield encodeHeader({ name, type: 'file', mode: 0o644, modifiedAt: 0, size: content.length })
    yield Buffer.concat([content, Buffer.alloc(padding(content.length))])
  }
  yield Buffer.alloc(2 * BLOCK)
}

async function* packFolder(
  folder: string,
  prefix: string,
  onSkip: (what: string) => void,
  options: PackOptions,
): AsyncGenerator<Buffer, void, undefined> {
  const { isPacked = () => true, entersAll = false } = options
  for await (const { name } of await opendir(folder)) {
    const path = join(folder, name)
    const isIn = isPacked(prefix + name)
    if (!isIn && !entersAll) continue
    const stats = await lstat(path)
    const entry = { name: prefix + name, mode: stats.mode, modifiedAt: stats.mtimeMs, size: 0 }
    if (stats.isDirectory()) {
      if (isIn) yield encodeHeader({ ...entry, type: 'directory' })
      yield* packFolder(path, `${entry.name}/`, onSkip, options)
      continue
    }
    if (!isIn) continue
    if (stats.isSymbolicLink()) {
      yield encodeHeader({ ...entry, type: 'symlink', target: await readlink(path) })
    } else if (stats.isFile()) {
      yield encodeHeader({ ...entry, type: 'file', size: stats.size })
      yield* contents(path, stats)
    } else {
      onSkip(`${kindOf(stats)} ${path}`)
    }
  }
}

const kindOf = (stats: Stats) => (stats.isSocket() ? 'socket' : stats.isFIFO() ? 'pipe' : 'device')

/** Exactly the bytes that the header promised: a file that grows is cut, and one that shrinks is an error. */
async function* contents(path: string, { size }: Stats): AsyncGenerator<Buffer, void, undefined> {
  let sent = 0
  if (size > 0) {
    for await (const piece of createReadStream(path, { end: size - 1, highWaterMark: 256 * 1024 })) {
      sent += piece.length
      yield piece
    }
  }
  if (sent < size) {
    throw new SandglassError('SOURCE_FAILED', { path, why: `it became shorter meanwhile, ${sent} bytes of ${size}` })
  }
  if (padding(size) > 0) yield Buffer.alloc(padding(size))
}
