// The build cache: steps of earlier builds that the engine keeps as untagged images. The cache is bounded in number and age. An engine does not
// record which daemon an image belongs to, so the list of images is a file.
import type Docker from 'dockerode'
import { z } from 'zod'
import { readJson, writeJson } from '../../../lib/json-file.ts'
import { ignoreStatus, nullIfNotFound } from '../engine/engine.ts'

const MAX_BUILDS = 8
const MAX_AGE_MS = 7 * 24 * 3600 * 1000

const CacheFile = z.object({
  startedAt: z.number(),
  /** Ids of the images of each build, oldest build first. */
  builds: z.array(z.array(z.string())),
})
type CacheFile = z.infer<typeof CacheFile>

const emptyCache = (): CacheFile => ({ startedAt: Date.now(), builds: [] })

export class BuildCache {
  readonly #engine: Docker
  readonly #file: string
  #content: CacheFile | undefined

  constructor(engine: Docker, file: string) {
    this.#engine = engine
    this.#file = file
  }

  /** Drops a cache that is too old. Returns the ids of all images in the engine before a build. */
  async open(): Promise<ReadonlySet<string>> {
    this.#content ??= (await readJson(this.#file, CacheFile)) ?? emptyCache()
    if (Date.now() - this.#content.startedAt > MAX_AGE_MS) {
      await this.#remove(this.#content.builds)
      await this.#write(emptyCache())
    }
    return new Set(await this.#imageIds())
  }

  /** False for null, which forbids the use of the cache. */
  isFresh(maxAgeMs: number | null): boolean {
    return maxAgeMs !== null && Date.now() - (this.#content?.startedAt ?? 0) <= maxAgeMs
  }

  /** `printed` are the short ids in the output of a build. Those that did not exist `before` were made by the build. */
  async keep(before: ReadonlySet<string>, printed: ReadonlySet<string>, isKept: boolean): Promise<void> {
    const made = (await this.#imageIds()).filter(id => !before.has(id) && printed.has(id.replace('sha256:', '').slice(0, 12)))
    if (made.length === 0) return
    if (!isKept) return await this.#remove([made])
    const { startedAt, builds } = this.#content ?? emptyCache()
    const all = [...builds, made]
    await this.#remove(all.slice(0, -MAX_BUILDS))
    await this.#write({ startedAt, builds: all.slice(-MAX_BUILDS) })
  }

  /** An image that is the parent of others stays, and the engine removes it with the last of them. */
  async #remove(builds: readonly (readonly string[])[]): Promise<void> {
    for (const id of builds.flat()) {
      const image = await nullIfNotFound(this.#engine.getImage(id).inspect())
      // A name means that somebody else uses it.
      if (image === null || (image.RepoTags ?? []).length > 0) continue
      await ignoreStatus(this.#engine.getImage(id).remove(), 404, 409)
    }
  }

  async #imageIds(): Promise<string[]> {
    return (await this.#engine.listImages({ all: true })).map(({ Id }) => Id)
  }

  async #write(content: CacheFile): Promise<void> {
    this.#content = content
    await writeJson(this.#file, content)
  }
}
