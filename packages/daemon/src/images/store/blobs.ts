// The blob files of images, named by digest. A partial download has the suffix .part.
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SandglassError } from '@sandglass/contract'
import { renameDurably } from '../../lib/durable-rename.ts'

const DIGEST = /^sha256:([0-9a-f]{64})$/

export class Blobs {
  readonly #dir: string

  constructor(dir: string) {
    this.#dir = join(dir, 'sha256')
  }

  async open(): Promise<void> {
    await mkdir(this.#dir, { recursive: true, mode: 0o700 })
  }

  path(digest: string): string {
    const hex = DIGEST.exec(digest)?.[1]
    // SECURITY: the digest becomes a path.
    if (hex === undefined) throw new SandglassError('INTERNAL', { message: `not a digest: ${JSON.stringify(digest)}` })
    return join(this.#dir, hex)
  }

  part(digest: string): string {
    return `${this.path(digest)}.part`
  }

  has(digest: string): boolean {
    return existsSync(this.path(digest))
  }

  /** For small blobs. Null if the blob does not exist. */
  async read(digest: string): Promise<Buffer | null> {
    return this.has(digest) ? await readFile(this.path(digest)) : null
  }

  /** Writes a small blob whose digest the caller has checked. */
  async write(digest: string, bytes: Buffer): Promise<void> {
    if (this.has(digest)) return
    // A unique name: another operation may write the same blob.
    const file = `${this.path(digest)}.${randomUUID()}.part`
    await writeFile(file, bytes, { mode: 0o600 })
    await this.adopt(file, digest)
  }

  /** Moves a complete file, whose digest the caller has checked, into the store. */
  async adopt(file: string, digest: string): Promise<void> {
    await renameDurably(file, this.path(digest))
  }

  /** Removes blobs and partial downloads that are not in `kept` and for which `isDue` returns true. Returns the bytes freed. */
  async prune(kept: ReadonlySet<string>, isDue: (digest: string, ageMs: number) => boolean): Promise<number> {
    let freed = 0
    for (const name of await readdir(this.#dir)) {
      const digest = `sha256:${name.replace(/(\.[0-9a-f-]+)?\.part$/, '')}`
      const path = join(this.#dir, name)
      if (kept.has(digest)) continue
      const info = await stat(path)
      if (!isDue(digest, Date.now() - info.mtimeMs)) continue
      await rm(path, { force: true })
      freed += info.size
    }
    return freed
  }
}
