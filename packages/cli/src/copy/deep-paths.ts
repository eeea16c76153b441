// Paths that are longer than the kernel accepts.
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

/** In characters, of at most three bytes each. The kernel accepts paths of 4095 bytes, and long paths are slow to resolve. */
const MAX_PATH = 1000
const MAX_PIECE = 500

/**
 * Paths of any length below a folder. A path that is too long for the kernel starts at an open descriptor of a folder on the way, as
 * /proc/self/fd/N; this works on Linux only.
 */
export class DeepPaths implements AsyncDisposable {
  readonly #folder: string
  /** The open folders on the way to the last long path, from the top. */
  #open: { piece: string; handle: FileHandle }[] = []

  constructor(folder: string) {
    this.#folder = folder
  }

  /** The result is valid until the next call. The caller has checked that every folder above `name` is a real folder, not a link. */
  async to(name: string): Promise<string> {
    const path = name === '' ? this.#folder : `${this.#folder}/${name}`
    if (process.platform !== 'linux' || path.length <= MAX_PATH) return path
    const pieces = piecesOf(name)
    const last = pieces.pop() ?? ''
    await this.#enter(pieces)
    return `${this.#top}/${last}`
  }

  get #top(): string {
    const deepest = this.#open.at(-1)
    return deepest ? `/proc/self/fd/${deepest.handle.fd}` : this.#folder
  }

  async #enter(pieces: readonly string[]): Promise<void> {
    const common = this.#open.findIndex(({ piece }, i) => piece !== pieces[i])
    if (common >= 0) await this.#leave(common)
    for (const piece of pieces.slice(this.#open.length)) {
      const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
      this.#open.push({ piece, handle: await open(`${this.#top}/${piece}`, flags) })
    }
  }

  async #leave(kept: number): Promise<void> {
    for (const { handle } of this.#open.splice(kept)) await handle.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#leave(0)
  }
}

/** Splits a path into pieces of whole names, as long as possible, so that neighbours share all pieces but the last. */
function piecesOf(name: string): string[] {
  const pieces: string[] = []
  let rest = name
  while (rest.length > MAX_PIECE) {
    const cut = rest.lastIndexOf('/', MAX_PIECE)
    if (cut < 0) break
    pieces.push(rest.slice(0, cut))
    rest = rest.slice(cut + 1)
  }
  return [...pieces, rest]
}
