// The folders of an image below a new layer: where a path leads to, and the mode and owner that its folders have. A layer repeats the folders above
// its files, because the folder of the topmost layer is the one that a sandbox sees.
import { posix } from 'node:path'
import type { LayerMaker } from '../../../../backends/image-builds.ts'

type FoundPaths = Awaited<ReturnType<LayerMaker['find']>>
type FoundPath = FoundPaths[string]

export interface LayerFolder {
  /** Without a slash at either end. */
  readonly path: string
  readonly mode: number
  readonly uid: number
  readonly gid: number
}

/** Paths in one question: a job of the launcher has at most 4 MiB. */
const AT_ONCE = 500
const NEW_FOLDER_MODE = 0o755

export class ImageTree {
  readonly #find: (paths: readonly string[]) => Promise<FoundPaths>
  readonly #found = new Map<string, FoundPath>()

  constructor(find: (paths: readonly string[]) => Promise<FoundPaths>) {
    this.#find = find
  }

  /** Has to be called with every path that the other methods are called with. */
  async load(paths: readonly string[]): Promise<void> {
    await this.#load(paths.flatMap(withParents))
    // Where links lead to has parents of its own.
    await this.#load(paths.flatMap(path => withParents(this.realPath(path) ?? '/')))
  }

  kind(path: string): FoundPath['kind'] {
    return this.#found.get(path)?.kind ?? ''
  }

  content(path: string): string {
    return Buffer.from(this.#found.get(path)?.content ?? '', 'base64').toString('utf8')
  }

  /** The path without links, also of something that does not exist; null if something above it is no folder. */
  realPath(path: string): string | null {
    if (path === '/') return path
    const found = this.#found.get(path)
    if (found && found.kind !== '') return found.path || null
    const parent = posix.dirname(path)
    if (parent !== '/' && !['', 'folder'].includes(this.kind(parent))) return null
    const above = this.realPath(parent)
    return above === null ? null : posix.join(above, posix.basename(path))
  }

  /** The folders above a real path, outermost first. Those that do not exist get the owner. */
  parents(real: string, owner: { uid: number; gid: number } | null): LayerFolder[] {
    return withParents(posix.dirname(real))
      .toReversed()
      .map(
        path => this.folder(path) ?? { path: path.slice(1), mode: NEW_FOLDER_MODE, uid: owner?.uid ?? 0, gid: owner?.gid ?? 0 },
      )
  }

  /** A folder that exists in the image, by its real path. */
  folder(real: string): LayerFolder | null {
    const found = this.#found.get(real)
    if (found?.kind !== 'folder') return null
    return { path: real.slice(1), mode: found.mode ?? 0, uid: found.uid ?? 0, gid: found.gid ?? 0 }
  }

  async #load(paths: readonly string[]): Promise<void> {
    const wanted = [...new Set(paths)].filter(path => !this.#found.has(path))
    for (let at = 0; at < wanted.length; at += AT_ONCE) {
      const asked = wanted.slice(at, at + AT_ONCE)
      const found = await this.#find(asked)
      for (const path of asked) this.#found.set(path, found[path] ?? { kind: '' })
    }
  }
}

/** The path and the folders above it, but the root. */
function withParents(path: string): string[] {
  const found: string[] = []
  for (let at = path; at !== '/' && at !== '.'; at = posix.dirname(at)) found.push(at)
  return found
}
