// Limits the bytes that an upload may write: at most its own maximum, and never the disk space that is reserved for sessions.
import { SandglassError } from '@sandglass/contract'
import { freeBytes, type ImageContext, reserveBytes } from '../context.ts'

/** Bytes written between two checks of the free disk space. */
const CHECK_INTERVAL = 32 * 1024 * 1024

export interface Limit {
  /** `image`, `what` and `next` are for the error message. */
  readonly image: string
  readonly what: string
  readonly max: number
  readonly next?: string
}

export const openSizeLimit = async (context: ImageContext, dir: string, limit: Limit): Promise<SizeLimit> =>
  new SizeLimit(dir, limit, await reserveBytes(context))

export class SizeLimit {
  readonly #limit: Limit
  readonly #dir: string
  readonly #reserve: number
  #total = 0
  #unchecked = CHECK_INTERVAL

  constructor(dir: string, limit: Limit, reserve: number) {
    this.#limit = limit
    this.#dir = dir
    this.#reserve = reserve
  }

  /** Call before writing the bytes. Throws IMAGE_TOO_LARGE or IMAGE_STORE_FULL. */
  async add(bytes: number): Promise<void> {
    this.#total += bytes
    this.#unchecked += bytes
    if (this.#total > this.#limit.max) throw new SandglassError('IMAGE_TOO_LARGE', this.#limit)
    if (this.#unchecked < CHECK_INTERVAL) return
    this.#unchecked = 0
    if ((await freeBytes(this.#dir)) < this.#reserve)
      throw new SandglassError('IMAGE_STORE_FULL', {
        image: this.#limit.image,
        why: 'the disk of the data folder has no space left for it',
      })
  }
}
