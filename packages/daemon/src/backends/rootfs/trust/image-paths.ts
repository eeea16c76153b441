// Where the files of an image are, and where a file at a path has to be put so that the programs of the image see it there.
import { posix } from 'node:path'
import { contentAt, type FoundPaths } from '../found-paths.ts'

/** SECURITY: elsewhere are folders that only their owner may enter, and a folder of the overlay layer would open them to everybody. */
const CHANGEABLE = ['/etc/', '/usr/', '/opt/', '/var/', '/nix/']
const MAX_PATH = 1024

export class ImagePaths {
  readonly #found: FoundPaths
  readonly #isFixed: (path: string) => boolean

  /** `isFixed` is true for paths without links that cannot be changed. */
  constructor(found: FoundPaths, isFixed: (path: string) => boolean) {
    // Every sandbox has its own /etc, which hides a link in its place and what the link leads to.
    this.#found = found['/etc']?.path === '/etc' ? found : {}
    this.#isFixed = isFixed
  }

  has(path: string, kind?: 'file' | 'folder'): boolean {
    const { kind: is = '' } = this.#found[path] ?? {}
    return kind === undefined ? is !== '' : is === kind
  }

  /** All files with this name. */
  named(name: string): string[] {
    return Object.keys(this.#found).filter(path => posix.basename(path) === name && this.has(path, 'file'))
  }

  text(path: string): string {
    return contentAt(this.#found, path).toString('latin1')
  }

  /** The path without links of a file, also of one that does not exist; null if no file can be put there. */
  placeOf(path: string): string | null {
    if (this.has(path) && !this.has(path, 'file')) return null
    const real = this.#found[path]?.path
    if (real !== undefined && this.#canChange(real)) return real
    // A link to a file that cannot be changed is replaced by a file.
    const folder = posix.dirname(path)
    const place = posix.join(this.#folder(folder), posix.basename(path))
    return this.#canChange(place) && (real === undefined || this.has(folder, 'folder')) ? place : null
  }

  #folder(path: string): string {
    const real = this.has(path, 'folder') ? this.#found[path]?.path : undefined
    if (path === '/' || real !== undefined) return real ?? '/'
    return posix.join(this.#folder(posix.dirname(path)), posix.basename(path))
  }

  #canChange(path: string): boolean {
    return CHANGEABLE.some(folder => path.startsWith(folder)) && !this.#isFixed(path)
  }
}

/** The path and all its parents but the root. */
export function withParents(path: string): string[] {
  return path === '/' ? [] : [path, ...withParents(posix.dirname(path))]
}

/** Those of the values of an image's environment that are paths. SECURITY: they may be anything. */
export function pathsIn(values: readonly (string | undefined)[]): string[] {
  const isPath = (value: string) =>
    value.length <= MAX_PATH && posix.resolve('/', value) === value && !/[*\0]/.test(value) && value !== '/'
  return values.filter(value => value !== undefined).filter(isPath)
}
