import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

/** Characters of at most three bytes each. The system takes 4095 bytes of a path at once, and every name in it costs time. */
const MAX_PATH = 1000
const MAX_PIECE = 500

/**
 * Paths of any length below a folder. One that is too long for the system begins at an open folder on the way, which Linux shows below
 * /proc/self/fd; elsewhere it stays too long.
 */
export class DeepPaths implements AsyncDisposable {
  readonly #folder: string
  /** The folders on the way to the last long path, from the top. */
  #open: { piece: string; handle: FileHandle }[] = []

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Good until the next call. Every folder above `name` is a real one, which the caller has made sure of. */
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

/** As many whole names in each as fit, so that neighbours have all but the last in common. */
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
