// Which entries of a context are taken. SECURITY: the engine unpacks it as root on its machine: only names inside, no way through a link, and
// nothing but files, folders and links.
import { posix } from 'node:path'
import { LIMITS, SandglassError } from '@sandglass/contract'
import type { Header } from 'tar-stream'

type Given = Partial<Header> & Pick<Header, 'name'>
/** What of a header is passed on. */
export type Admitted = Pick<Header, 'name' | 'mode' | 'mtime' | 'uid' | 'gid'> & {
  type: 'file' | 'directory' | 'symlink' | 'link'
  linkname?: string
  size?: number
}

export class ContextNames {
  readonly #kinds = new Map<string, 'file' | 'directory' | 'symlink'>()
  /** Folders that no entry has announced. */
  readonly #implied = new Set<string>()
  readonly #image: string

  constructor(image: string) {
    this.#image = image
  }

  /** The header that is passed on; null for the top folder itself. */
  admit({ name: given, type, mode = 0o644, mtime, linkname, size }: Given): Admitted | null {
    const name = plain(given)
    if (name === '.') return null
    if (this.#kinds.size >= LIMITS.build_context_entries.max)
      throw new SandglassError('IMAGE_TOO_LARGE', {
        image: this.#image,
        what: 'files for its build',
        max: LIMITS.build_context_entries.max,
        next: 'name what is not needed in .dockerignore',
      })
    if (this.#kinds.has(name)) throw unsafe(given, 'is there twice')
    this.#enter(given, name)
    const header = { name, mode: mode & 0o7777, mtime: mtime ?? new Date(0), uid: 0, gid: 0 }
    switch (type) {
      case 'directory':
        this.#kinds.set(name, 'directory')
        this.#implied.delete(name)
        return { ...header, type }
      case 'file':
      case 'contiguous-file':
        this.#claim(given, name, 'file')
        return { ...header, type: 'file', size: size ?? 0 }
      case 'symlink':
        this.#claim(given, name, 'symlink')
        return { ...header, type, linkname: inside(given, name, linkname ?? '') }
      case 'link': {
        const target = plain(linkname ?? '')
        if (this.#kinds.get(target) !== 'file') throw unsafe(given, 'is a hard link to something that is not in front of it')
        this.#claim(given, name, 'file')
        return { ...header, type, linkname: target }
      }
      default:
        throw unsafe(given, 'is neither a file, a folder nor a link')
    }
  }

  #enter(given: string, name: string): void {
    for (let folder = posix.dirname(name); folder !== '.'; folder = posix.dirname(folder)) {
      const kind = this.#kinds.get(folder)
      if (kind !== undefined && kind !== 'directory') throw unsafe(given, `is below ${folder}, which is no folder`)
      if (kind === undefined) this.#implied.add(folder)
    }
  }

  #claim(given: string, name: string, kind: 'file' | 'symlink'): void {
    if (this.#implied.has(name)) throw unsafe(given, 'stands where a folder is')
    this.#kinds.set(name, kind)
  }
}

function plain(name: string): string {
  if (name.startsWith('/')) throw unsafe(name, 'its name is absolute')
  if (name.includes('\0')) throw unsafe(name, 'its name has a NUL')
  if (name.split('/').includes('..')) throw unsafe(name, 'its name leads out of the folder')
  if (Buffer.byteLength(name) > LIMITS.path_bytes.max) throw unsafe(name.slice(0, 64), 'its name is too long')
  return posix.normalize(name).replace(/\/$/, '')
}

/** An absolute one leads somewhere in the image that it is copied to. */
function inside(given: string, name: string, target: string): string {
  const isOut = posix.normalize(posix.join(posix.dirname(name), target)).split('/')[0] === '..'
  if (target === '' || target.includes('\0') || (isOut && !target.startsWith('/')))
    throw unsafe(given, `is a link to ${target || 'nothing'}, which leads out of the folder`)
  return target
}

const unsafe = (entry: string, issue: string) =>
  new SandglassError('ARCHIVE_UNSAFE', { entry, issue, next: 'leave it out of the build: name it in .dockerignore' })
