// Images as disks: made once, kept while a session or the next start may need them.
import type { RootImage } from '../backend.ts'
import { prepareHostDisks } from './host-disk.ts'
import { prepareLayerDisks } from './layer-disk.ts'
import type { MicrovmPaths } from './paths.ts'
import type { Host } from './probe.ts'

/** File names below the folder of disks, and what a machine has to know of them. */
export interface ImageDisk {
  readonly image: string
  /** What is laid over it. */
  readonly top: string
  /** Folders of the image's disk, one per layer; 0 where the disk itself is the one layer. */
  readonly layers: number
  /** Name of the user that programs run as. */
  readonly user: string
}

/** Programs that were installed on the host show in sessions made this long after it: looking costs some milliseconds. */
const HOST_FRESH_MS = 60_000

export class ImageDisks {
  readonly #paths: MicrovmPaths
  readonly #runnerPath: string
  readonly #making = new Map<string, Promise<ImageDisk>>()
  #hostFreshUntil = 0

  constructor(paths: MicrovmPaths, runnerPath: string) {
    this.#paths = paths
    this.#runnerPath = runnerPath
  }

  /** The disk of an image, made if it is not there. Those who ask at the same time wait for the same one. */
  async prepare(host: Host, image: RootImage, signal: AbortSignal, say: (step: string) => void): Promise<ImageDisk> {
    const key = image.kind === 'host' ? 'host' : image.id
    if (key === 'host' && Date.now() > this.#hostFreshUntil) {
      this.#making.delete(key)
      this.#hostFreshUntil = Date.now() + HOST_FRESH_MS
    }
    const making = this.#making.get(key) ?? this.#make(host, image, signal, say)
    this.#making.set(key, making)
    try {
      return await making
    } catch (error) {
      this.#making.delete(key)
      throw error
    }
  }

  async #make(host: Host, image: RootImage, signal: AbortSignal, say: (step: string) => void): Promise<ImageDisk> {
    if (image.kind === 'layers') {
      const tools = { ...host, runnerPath: this.#runnerPath }
      return await prepareLayerDisks(tools, this.#paths, image, signal, say)
    }
    const disks = await prepareHostDisks(host.mksquashfs, this.#paths, signal, say)
    return { ...disks, layers: 0, user: 'sandbox' }
  }
}
