// The runner in a volume that every container mounts. One volume per version of the runner.
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type Docker from 'dockerode'
import { OWNER_LABEL } from '../engine/names.ts'
import { filledVolume, isStillFilled } from './filled-volume.ts'

export class RunnerVolume {
  readonly #runnerPath: string
  readonly #owner: string
  #placed: Promise<string> | undefined

  constructor(runnerPath: string, owner: string) {
    this.#runnerPath = runnerPath
    this.#owner = owner
  }

  /** Returns the name of the volume. */
  async place(engine: Docker, image: string): Promise<string> {
    this.#placed ??= this.#find(engine, image)
    const placed = this.#placed
    try {
      return await placed
    } catch (error) {
      this.#forget(placed)
      throw error
    }
  }

  /** Called before a container is created. */
  async check(engine: Docker): Promise<void> {
    const placed = this.#placed
    const name = await placed?.catch(() => undefined) // the caller of place() gets the error
    if (placed !== undefined && name !== undefined && !(await isStillFilled(engine, name))) this.#forget(placed)
  }

  #forget(placed: Promise<string>): void {
    if (this.#placed === placed) this.#placed = undefined
  }

  async #find(engine: Docker, image: string): Promise<string> {
    const runner = await readFile(this.#runnerPath)
    return await filledVolume(engine, image, {
      prefix: `sandglass-runner-${createHash('sha256').update(runner).digest('hex').slice(0, 16)}-`,
      labels: { [OWNER_LABEL]: this.#owner },
      pack: async archive => {
        archive.entry({ name: 'runner', mode: 0o755, uid: 0, gid: 0 }, runner)
      },
    })
  }
}
