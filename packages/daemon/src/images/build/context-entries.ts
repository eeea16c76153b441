// Checks the entries of a build context. SECURITY: the engine unpacks it as root on its host, so only files, folders and links are accepted, with
// names inside the context and not below a link.
import { posix } from 'node:path'
import { LIMITS, SandglassError } from '@sandglass/contract'
import type { Header } from 'tar-stream'

type Given = Partial<Header> & Pick<Header, 'name'>
/** The fields that are passed on to the engine. */
export type CheckedHeader = Pick<Header, 'name' | 'mode' | 'mtime' | 'uid' | 'gid'> & {
  type: 'file' | 'directory' | 'symlink' | 'link'
  linkname?: string
  size?: number
}

export class ContextEntries {
  readonly #kinds = new Map<string, 'file' | 'directory' | 'symlink'>()
  /** Folders that appear only as parents of other entries. */
  readonly #implied = new Set<string>()
  readonly #image: string

  constructor(image: string) {
    this.#image = image
  }

  /** Returns the checked header; null for the top folder itself. */
  check({ name: given, type, mode = 0o644, mtime, linkname, size }: Given): CheckedHeader | null {
    const name = plain(given)
    if (name === '.') return null
    if (this.#kinds.size >= LIMITS.build_context_entries.max)
      throw new SandglassError('IMAGE_TOO_LARGE', {
        image: this.#image,
        what: 'files in its build context',
        max: LIMITS.build_context_entries.max,
        next: 'exclude files in .dockerignore',
      })
    if (this.#kinds.has(name)) throw unsafe(given, 'appears twice')
    this.#addParents(given, name)
    const header = { name, mode: mode & 0o7777, mtime: mtime ?? new Date(0), uid: 0, gid: 0 }
    switch (type) {
      case 'directory':
        this.#kinds.set(name, 'directory')
        this.#implied.delete(name)
        return { ...header, type }
      case 'file':
      case 'contiguous-file':
        this.#addEntry(given, name, 'file')
        return { ...header, type: 'file', size: size ?? 0 }
      case 'symlink':
        this.#addEntry(given, name, 'symlink')
        return { ...header, type, linkname: inside(given, name, linkname ?? '') }
      case 'link': {
        const target = plain(linkname ?? '')
        if (this.#kinds.get(target) !== 'file') throw unsafe(given, 'is a hard link to a file that does not come before it')
        this.#addEntry(given, name, 'file')
        return { ...header, type, linkname: target }
      }
      default:
        throw unsafe(given, 'is not a file, a folder or a link')
    }
  }

  #addParents(given: string, name: string): void {
    for (let folder = posix.dirname(name); folder !== '.'; folder = posix.dirname(folder)) {
      const kind = this.#kinds.get(folder)
      if (kind !== undefined && kind !== 'directory') throw unsafe(given, `is below ${folder}, which is not a folder`)
      if (kind === undefined) this.#implied.add(folder)
    }
  }

  #addEntry(given: string, name: string, kind: 'file' | 'symlink'): void {
    if (this.#implied.has(name)) throw unsafe(given, 'has the name of a folder')
    this.#kinds.set(name, kind)
  }
}

function plain(name: string): string {
  if (name.startsWith('/')) throw unsafe(name, 'its name is absolute')
  if (name.includes('\0')) throw unsafe(name, 'its name contains a NUL')
  if (name.split('/').includes('..')) throw unsafe(name, 'its name leads outside the folder')
  if (Buffer.byteLength(name) > LIMITS.path_bytes.max) throw unsafe(name.slice(0, 64), 'its name is too long')
  return posix.normalize(name).replace(/\/$/, '')
}

/** Checks the target of a symbolic link. An absolute target is resolved inside the image that the link is copied to. */
function inside(given: string, name: string, target: string): string {
  const isOut = posix.normalize(posix.join(posix.dirname(name), target)).split('/')[0] === '..'
  if (target === '' || target.includes('\0') || (isOut && !target.startsWith('/')))
    throw unsafe(given, `is a link to ${target || 'nothing'}, which leads outside the folder`)
  return target
}

const unsafe = (entry: string, issue: string) =>
  new SandglassError('ARCHIVE_UNSAFE', { entry, issue, next: 'exclude it in .dockerignore' })
