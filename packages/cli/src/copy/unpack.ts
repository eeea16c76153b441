// Unpacks a tar from a sandbox into a folder of this machine. SECURITY: the archive is hostile. These rules hold:
//   Nothing is written outside the folder: no absolute name, no `..`, no path component that is a symbolic link, whoever created it.
//   Symbolic links are created last, so that no entry can be written through one, and only if they point to inside the folder.
//   An existing file or link of the same name is removed and the file is created with O_EXCL and O_NOFOLLOW, so nothing is written through it.
//   Devices, pipes, sockets and hard links to anything but files of this archive are refused. Set-id bits are dropped, and the umask
//   applies to modes, as for every new file.
import { constants } from 'node:fs'
import { chmod, link, lstat, mkdir, open, rm, symlink, utimes } from 'node:fs/promises'
import { posix } from 'node:path'
import { SandglassError } from '@sandglass/sdk'
import { saveTo } from '@sandglass/sdk/node'
import { createAtomically } from './atomic-create.ts'
import { DeepPaths } from './deep-paths.ts'
import { requireFreeSpace } from './free-space.ts'
import { type OmissionCallbacks, readTar, type TarEntry, unsafe } from './read-tar.ts'

export type UnpackOptions = OmissionCallbacks & {
  /** Gets each refused entry; the others are unpacked. Without it, the first refused entry is an error. */
  onSkip?: ((error: SandglassError<'ARCHIVE_UNSAFE'>) => void) | undefined
}

/** `folder` must exist. Returns the number of entries. */
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
  /** Targets of symbolic links by name; created last. */
  readonly links = new Map<string, string>()
  readonly #folder: string
  readonly #paths: DeepPaths
  readonly #files = new Set<string>()
  readonly #folders = new Map<string, Pick<TarEntry, 'mode' | 'modifiedAt'>>()
  /** The components of the folder that was checked last. No entry of the archive can replace it or a folder above it. */
  #entered: string[] = []

  constructor(folder: string) {
    this.#folder = folder
    this.#paths = new DeepPaths(folder)
  }

  async add(entry: TarEntry): Promise<void> {
    if (!entry.isUtf8) throw unsafe(entry.name, 'its name or the target of the link is not UTF-8')
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
      await requireFreeSpace(this.#folder, name, entry.size)
      await writeFile(path, entry)
    }
    this.#files.add(name)
  }

  /** Called when all folders exist, so that a link cannot take the place of one. */
  async makeLink(name: string, target: string): Promise<void> {
    await symlink(target, await this.#freePath(name))
  }

  /** Sets modes and times at the end, deepest folder first: entries could not have been created in a read-only folder. */
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

  /** Creates the folders of a path one by one; an existing one must be a real folder. */
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

  /** Prepares the path of an entry: creates its folder and removes an existing file or link. An existing folder is an error. */
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
  const create = () => open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)
  await createAtomically(path, create, async created => {
    await using file = created
    await saveTo(file, entry.body)
    await file.chmod(entry.mode & ~process.umask())
    await file.utimes(new Date(), entry.modifiedAt)
  })
}

/** Returns the name in normal form. Throws if it is absolute or contains `..`. */
function safeName(name: string): string {
  if (name.startsWith('/')) throw unsafe(name, 'its name is absolute')
  if (name.includes('\0')) throw unsafe(name, 'its name has a NUL')
  if (name.split('/').includes('..')) throw unsafe(name, 'its name leads out of the folder')
  const normal = posix.normalize(name).replace(/\/$/, '')
  if (normal === '' || normal === '.') throw unsafe(name, 'has no name')
  return normal
}

/**
 * A link target may start with at most as many `..` as the link has folders above it. A `..` after a name is refused: the name may be another
 * link, and the `..` would then lead up from where that one points.
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
