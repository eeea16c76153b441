// What may still be written of something that comes from outside: as much as it may have, and not what sessions were promised.
import { SandglassError } from '@sandglass/contract'
import { freeBytes, type ImageWorld, reserveBytes } from '../context.ts'

const LOOK_EVERY = 32 * 1024 * 1024

export interface RoomLimit {
  /** For messages: what is too large, and what could be done about it. */
  readonly image: string
  readonly what: string
  readonly max: number
  readonly next?: string
}

export const openRoom = async (world: ImageWorld, dir: string, limit: RoomLimit): Promise<Room> =>
  new Room(dir, limit, await reserveBytes(world))

export class Room {
  readonly #limit: RoomLimit
  readonly #dir: string
  readonly #reserve: number
  #taken = 0
  #unlooked = LOOK_EVERY

  constructor(dir: string, limit: RoomLimit, reserve: number) {
    this.#limit = limit
    this.#dir = dir
    this.#reserve = reserve
  }

  async take(bytes: number): Promise<void> {
    this.#taken += bytes
    this.#unlooked += bytes
    if (this.#taken > this.#limit.max) throw new SandglassError('IMAGE_TOO_LARGE', this.#limit)
    if (this.#unlooked < LOOK_EVERY) return
    this.#unlooked = 0
    if ((await freeBytes(this.#dir)) < this.#reserve)
      throw new SandglassError('IMAGE_STORE_FULL', {
        image: this.#limit.image,
        why: 'the disk of the data folder has no room for it',
      })
  }
}
