// Steps of earlier builds that the engine keeps as untagged images, so that a build whose first steps are the same begins behind them. They are
// bounded in number and age; the list is a file, because an engine does not tell whose they are.
import { readFile, rename, writeFile } from 'node:fs/promises'
import type Docker from 'dockerode'
import { isMissing } from '../../../lib/missing-file.ts'
import { orNull, settled } from '../engine/engine.ts'

const BUILDS_KEPT = 8
const MAX_AGE_MS = 7 * 24 * 3600 * 1000

interface Kept {
  readonly startedAt: number
  /** Ids of what each build made, oldest build first. */
  readonly builds: readonly (readonly string[])[]
}

const NOTHING = (): Kept => ({ startedAt: Date.now(), builds: [] })

export class BuildCache {
  readonly #engine: Docker
  readonly #file: string
  #kept: Kept | undefined

  constructor(engine: Docker, file: string) {
    this.#engine = engine
    this.#file = file
  }

  /** Ids of all images that are there before a build. */
  async open(): Promise<ReadonlySet<string>> {
    this.#kept ??= await this.#read()
    if (Date.now() - this.#kept.startedAt > MAX_AGE_MS) {
      await this.#drop(this.#kept.builds)
      await this.#write(NOTHING())
    }
    return new Set(await this.#ids())
  }

  /** Null asks for nothing of it. */
  isFresh(maxAgeMs: number | null): boolean {
    return maxAgeMs !== null && Date.now() - (this.#kept?.startedAt ?? 0) <= maxAgeMs
  }

  /** `told` are short ids. Of these, what was not there before was made by the build. */
  async keep(before: ReadonlySet<string>, told: ReadonlySet<string>, isKept: boolean): Promise<void> {
    const made = (await this.#ids()).filter(id => !before.has(id) && told.has(id.replace('sha256:', '').slice(0, 12)))
    if (made.length === 0) return
    if (!isKept) return await this.#drop([made])
    const { startedAt, builds } = this.#kept ?? NOTHING()
    const all = [...builds, made]
    await this.#drop(all.slice(0, -BUILDS_KEPT))
    await this.#write({ startedAt, builds: all.slice(-BUILDS_KEPT) })
  }

  /** One that others stand on stays, and goes with the last of them. */
  async #drop(builds: readonly (readonly string[])[]): Promise<void> {
    for (const id of builds.flat()) {
      const shown = await orNull(this.#engine.getImage(id).inspect())
      // Somebody gave it a name: it is theirs.
      if (shown === null || (shown.RepoTags ?? []).length > 0) continue
      await settled(this.#engine.getImage(id).remove(), 404, 409)
    }
  }

  async #ids(): Promise<string[]> {
    return (await this.#engine.listImages({ all: true })).map(({ Id }) => Id)
  }

  async #read(): Promise<Kept> {
    try {
      return JSON.parse(await readFile(this.#file, 'utf8')) as Kept
    } catch (error) {
      if (isMissing(error) || error instanceof SyntaxError) return NOTHING()
      throw error
    }
  }

  async #write(kept: Kept): Promise<void> {
    this.#kept = kept
    await writeFile(`${this.#file}.new`, JSON.stringify(kept), { mode: 0o600 })
    await rename(`${this.#file}.new`, this.#file)
  }
}
