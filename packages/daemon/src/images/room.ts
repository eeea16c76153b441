// What may still be written of something that comes from outside: as much as it may have, and not what sessions were promised.
import { SandglassError } from '@sandglass/contract'
import { freeBytes, type ImageWorld, reserveBytes } from './image-world.ts'

const LOOK_EVERY = 32 * 1024 * 1024

/** `image` is what is told to be too large. */
export const openRoom = async (world: ImageWorld, image: string, dir: string, max: number): Promise<Room> =>
  new Room(image, dir, max, await reserveBytes(world))

export class Room {
  readonly #max: number
  readonly #image: string
  readonly #dir: string
  readonly #reserve: number
  #taken = 0
  #unlooked = LOOK_EVERY

  constructor(image: string, dir: string, max: number, reserve: number) {
    this.#image = image
    this.#dir = dir
    this.#max = max
    this.#reserve = reserve
  }

  async take(bytes: number): Promise<void> {
    this.#taken += bytes
    this.#unlooked += bytes
    if (this.#taken > this.#max)
      throw new SandglassError('IMAGE_TOO_LARGE', { image: this.#image, what: 'bytes', max: this.#max })
    if (this.#unlooked < LOOK_EVERY) return
    this.#unlooked = 0
    if ((await freeBytes(this.#dir)) < this.#reserve)
      throw new SandglassError('IMAGE_STORE_FULL', { image: this.#image, why: 'the disk of the data folder has no room for it' })
  }
}
