// Unpacks a tar from a sandbox into a folder of this machine. SECURITY: the archive is hostile. What holds:
//   nothing is written outside the folder: no absolute name, no `..`, no component that is a symbolic link, whoever made it;
//   links are made last, so no entry can pass through one that came before it, and only if they lead to inside the folder;
//   a file is made new (O_EXCL, O_NOFOLLOW) after what had its name is removed, so no existing link or file is written through;
//   devices, pipes, sockets and hard links to anything but files of this archive are refused; set-id bits are dropped,
//   and modes are cut by the umask, as for every file that one makes.
import { constants } from 'node:fs'
import { chmod, link, lstat, mkdir, open, rm, symlink, utimes } from 'node:fs/promises'
import { posix } from 'node:path'
import { SandglassError } from '@sandglass/sdk'
import { saveTo } from '@sandglass/sdk/node'
import { DeepPaths } from './deep-paths.ts'
import { wholeOrNone } from './half-made.ts'
import { type OmissionCallbacks, readTar, type TarEntry, unsafe } from './read-tar.ts'
import { requireRoom } from './room.ts'

export type UnpackOptions = OmissionCallbacks & {
  /** Leaves out entries that are refused, and names them, instead of stopping at the first. */
  onSkip?: ((error: SandglassError<'ARCHIVE_UNSAFE'>) => void) | undefined
}

/** `folder` exists. Gives the number of entries. */
export async function unpack(source: AsyncIterable<Uint8Array>, folder: string, options: UnpackOptions = {}): Promise<number> {
  const { onSkip, ...callbacks } = options
  await using unpacking = new Unpacking(folder)
  let count = 0
  const attempt = async (work: () => Promise<void>) => {
    try {
      await work()
    } catch (error) {
      if (!onSkip || !(error instanceof SandglassError) || !error.is('ARCHIVE_UNSAFE')) throw error
      onSkip(error)
    }
  }
  for await (const entry of readTar(source, callbacks)) {
    if (posix.normalize(entry.name).replace(/\/$/, '') === '.') continue
    await attempt(async () => {
      await unpacking.add(entry)
      count++
    })
  }
  for (const [name, target] of unpacking.links) await attempt(() => unpacking.makeLink(name, target))
  await unpacking.finishFolders()
  return count
}

class Unpacking implements AsyncDisposable {
  /** Made last. */
  readonly links = new Map<string, string>()
  readonly #folder: string
  readonly #paths: DeepPaths
  readonly #files = new Set<string>()
  readonly #folders = new Map<string, Pick<TarEntry, 'mode' | 'modifiedAt'>>()
  /** The folder that was looked at last. Nothing of the archive can replace it or one above it. */
  #entered: string[] = []

  constructor(folder: string) {
    this.#folder = folder
    this.#paths = new DeepPaths(folder)
  }

  async add(entry: TarEntry): Promise<void> {
    const name = safeName(entry.name)
    this.links.delete(name)
    if (entry.type === 'directory') {
      await this.#enter(name)
      this.#folders.set(name, { mode: entry.mode, modifiedAt: entry.modifiedAt })
      return
    }
    if (entry.type === 'symlink') {
      this.links.set(name, safeTarget(name, entry.target))
      return
    }
    if (entry.type !== 'file' && entry.type !== 'contiguous-file' && entry.type !== 'link')
      throw unsafe(entry.name, `is a ${KINDS[entry.type ?? ''] ?? 'special file'}`)
    if (entry.isSparse) throw unsafe(entry.name, 'is a sparse file in a form that is not supported')
    const path = await this.#freePath(name)
    if (entry.type === 'link') {
      const original = safeName(entry.target)
      if (!this.#files.has(original)) throw unsafe(entry.name, 'is a hard link to something that is not in the archive')
      await this.#makeHardLink(original, name)
    } else {
      await requireRoom(this.#folder, name, entry.size)
      await writeFile(path, entry)
    }
    this.#files.add(name)
  }

  /** When every folder is in place and none can be replaced by it any more. */
  async makeLink(name: string, target: string): Promise<void> {
    await symlink(target, await this.#freePath(name))
  }

  /** Deepest first: a folder that is not writable could not have taken what is in it. */
  async finishFolders(): Promise<void> {
    for (const [name, { mode, modifiedAt }] of [...this.#folders].reverse()) {
      const path = await this.#paths.to(name)
      await chmod(path, (mode & ~process.umask()) | 0o700)
      await utimes(path, new Date(), modifiedAt)
    }
  }

  async #makeHardLink(original: string, name: string): Promise<void> {
    await using others = new DeepPaths(this.#folder)
    await link(await others.to(original), await this.#paths.to(name))
  }

  /** Makes the folders of a path one by one; each must be a real folder. */
  async #enter(name: string): Promise<void> {
    const parts = name === '.' ? [] : name.split('/')
    const common = parts.findIndex((part, i) => part !== this.#entered[i])
    this.#entered = common < 0 ? parts : parts.slice(0, common)
    for (const part of parts.slice(this.#entered.length)) {
      const folder = [...this.#entered, part].join('/')
      const path = await this.#paths.to(folder)
      const found = await lstat(path).catch(absent)
      if (!found) await mkdir(path, { mode: 0o700 })
      else if (!found.isDirectory())
        throw unsafe(
          folder,
          found.isSymbolicLink()
            ? 'a symbolic link stands where its folder should be'
            : 'a file stands where its folder should be',
        )
      this.#entered.push(part)
    }
  }

  /** The path of an entry whose folder is made and whose name nothing has any more: a file or link is removed; a folder is in the way. */
  async #freePath(name: string): Promise<string> {
    await this.#enter(posix.dirname(name))
    const path = await this.#paths.to(name)
    const found = await lstat(path).catch(absent)
    if (found?.isDirectory()) throw unsafe(name, 'a folder stands where it should be')
    if (found) await rm(path)
    return path
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#paths[Symbol.asyncDispose]()
  }
}

const KINDS: Record<string, string> = { 'character-device': 'device', 'block-device': 'device', fifo: 'pipe' }

async function writeFile(path: string, entry: TarEntry): Promise<void> {
  const make = () => open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)
  await wholeOrNone(path, make, async made => {
    await using file = made
    await saveTo(file, entry.body)
    await file.chmod(entry.mode & ~process.umask())
    await file.utimes(new Date(), entry.modifiedAt)
  })
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

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
