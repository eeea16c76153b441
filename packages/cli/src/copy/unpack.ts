// Unpacks a tar from a sandbox into a folder of this machine. SECURITY: the archive is hostile. What holds:
//   nothing is written outside the folder: no absolute name, no `..`, no component that is a symbolic link, whoever made it;
//   links are made last, so no entry can pass through one that came before it, and only if they lead to inside the folder;
//   a file is made new (O_EXCL, O_NOFOLLOW) after what had its name is removed, so no existing link or file is written through;
//   devices, pipes, sockets and hard links to anything but files of this archive are refused; set-id bits are dropped,
//   and modes are cut by the umask, as for every file that one makes.
import { constants } from 'node:fs'
import { chmod, link, lstat, mkdir, open, rm, symlink, utimes } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { SandglassError } from '@sandglass/sdk'
import { saveTo } from '@sandglass/sdk/node'
import { wholeOrNone } from './half-file.ts'
import { requireRoom } from './room.ts'
import { type ReadEntry, tarEntries, unsafe } from './unpack-entries.ts'

export type UnpackOptions = {
  /** Leaves out entries that are refused, and names them, instead of stopping at the first. */
  onSkip?: (error: SandglassError<'ARCHIVE_UNSAFE'>) => void
  /** Gets what is not in the archive because it is neither a file, a folder nor a link. */
  onLeftOut?: (what: string) => void
}

type Made = { files: Set<string>; links: Map<string, string>; folders: Map<string, ReadEntry> }

/** `folder` exists. Gives the number of entries. */
export async function unpack(source: AsyncIterable<Uint8Array>, folder: string, options: UnpackOptions = {}): Promise<number> {
  const { onSkip, onLeftOut } = options
  const made: Made = { files: new Set(), links: new Map(), folders: new Map() }
  let count = 0
  const attempt = async (work: () => Promise<void>) => {
    try {
      await work()
    } catch (error) {
      if (!onSkip || !(error instanceof SandglassError) || !error.is('ARCHIVE_UNSAFE')) throw error
      onSkip(error)
    }
  }
  for await (const entry of tarEntries(source, onLeftOut)) {
    if (posix.normalize(entry.name).replace(/\/$/, '') === '.') continue
    await attempt(async () => {
      await unpackEntry(entry, folder, made)
      count++
    })
  }
  for (const [name, target] of made.links) await attempt(() => makeLink(folder, name, target))
  // Deepest first: a folder that is not writable could not have taken what is in it.
  for (const [name, entry] of [...made.folders].reverse()) {
    await chmod(join(folder, name), (entry.mode & ~process.umask()) | 0o700)
    await utimes(join(folder, name), new Date(), new Date(entry.modifiedAt))
  }
  return count
}

async function unpackEntry(entry: ReadEntry, folder: string, made: Made): Promise<void> {
  const name = safeName(entry.name)
  made.links.delete(name)
  if (entry.typeFlag === '5') {
    await makeFolder(folder, name)
    made.folders.set(name, entry)
    return
  }
  if (entry.typeFlag === '2') {
    made.links.set(name, safeTarget(name, entry.target))
    return
  }
  if (entry.typeFlag !== '0' && entry.typeFlag !== '7' && entry.typeFlag !== '1')
    throw unsafe(entry.name, `is a ${KINDS[entry.typeFlag] ?? 'special file'}`)
  await makeFolder(folder, posix.dirname(name))
  await makeRoom(folder, name)
  if (entry.typeFlag === '1') {
    const original = safeName(entry.target)
    if (!made.files.has(original)) throw unsafe(entry.name, 'is a hard link to something that is not in the archive')
    await link(join(folder, original), join(folder, name))
  } else {
    await requireRoom(folder, name, entry.size)
    await writeFile(join(folder, name), entry)
  }
  made.files.add(name)
}

const KINDS: Record<string, string> = { '3': 'device', '4': 'device', '6': 'pipe' }

async function writeFile(path: string, entry: ReadEntry): Promise<void> {
  const make = () => open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)
  await wholeOrNone(path, make, async file => {
    await saveTo(file, entry.body)
    await file.chmod(entry.mode & ~process.umask())
    await file.utimes(new Date(), new Date(entry.modifiedAt))
  })
}

/** Made last, when every folder is in place and none can be replaced by it any more. */
async function makeLink(folder: string, name: string, target: string): Promise<void> {
  await makeFolder(folder, posix.dirname(name))
  await makeRoom(folder, name)
  await symlink(target, join(folder, name))
}

/** Relative, without `..`, in plain form. */
function safeName(name: string): string {
  if (name.startsWith('/')) throw unsafe(name, 'its name is absolute')
  if (name.includes('\0')) throw unsafe(name, 'its name has a NUL')
  if (name.split('/').includes('..')) throw unsafe(name, 'its name leads out of the folder')
  const plain = posix.normalize(name).replace(/\/$/, '')
  if (plain === '' || plain === '.') throw unsafe(name, 'has no name')
  return plain
}

/**
 * Where a link may lead: up by at most as many folders as it stands in, then down. A `..` after a name is refused as well: the name may be
 * another link, and from where that leads the way up could end outside.
 */
function safeTarget(name: string, target: string): string {
  const parts = target.split('/').filter(part => part !== '' && part !== '.')
  const down = parts.findIndex(part => part !== '..')
  const up = down < 0 ? parts.length : down
  const leavesFolder = target === '' || target.startsWith('/') || target.includes('\0') || up > name.split('/').length - 1
  if (leavesFolder || parts.slice(up).includes('..'))
    throw unsafe(name, `is a link to ${target || 'nothing'}, which may lead out of the folder`)
  return target
}

/** Makes the folders of a path one by one; each must be a real folder. */
async function makeFolder(folder: string, name: string): Promise<void> {
  if (name === '.') return
  await makeFolder(folder, posix.dirname(name))
  const path = join(folder, name)
  const found = await lstat(path).catch(absent)
  if (!found) await mkdir(path, { mode: 0o700 })
  else if (!found.isDirectory())
    throw unsafe(
      name,
      found.isSymbolicLink() ? 'a symbolic link stands where its folder should be' : 'a file stands where its folder should be',
    )
}

/** Removes a file or link of this name; a folder is in the way. */
async function makeRoom(folder: string, name: string): Promise<void> {
  const path = join(folder, name)
  const found = await lstat(path).catch(absent)
  if (found?.isDirectory()) throw unsafe(name, 'a folder stands where it should be')
  if (found) await rm(path)
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
