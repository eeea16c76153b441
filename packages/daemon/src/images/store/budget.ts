// What one image may have in all, whatever its layers are and however many of them come at once.
import { LIMITS, SandglassError } from '@sandglass/contract'
import type { Unpacked, UnpackLimits } from '../../layers/layer-folders.ts'

export class Budget {
  readonly #image: string
  readonly #limits: UnpackLimits
  #tarBytes = 0
  #bytes = 0
  #entries = 0

  constructor(image: string, maxBytes: number, reserveBytes: number) {
    this.#image = image
    this.#limits = { maxBytes, maxEntries: LIMITS.image_entries.max, reserveBytes }
  }

  /** For the layer that is unpacked next. */
  get limits(): UnpackLimits {
    return this.#limits
  }

  /** SECURITY: called for each piece as it is uncompressed, so that a bomb ends where its image may not grow any more. */
  spend(bytes: number): void {
    this.#tarBytes += bytes
    if (this.#tarBytes > this.#limits.maxBytes + TAR_OVERHEAD) throw this.#tooLarge('bytes', this.#limits.maxBytes)
  }

  /** For a layer that was unpacked: sparse files have more bytes than their tar. */
  unpacked({ bytes, entries }: Unpacked): void {
    this.#bytes += bytes
    this.#entries += entries
    if (this.#bytes > this.#limits.maxBytes) throw this.#tooLarge('bytes', this.#limits.maxBytes)
    if (this.#entries > this.#limits.maxEntries) throw this.#tooLarge('entries', this.#limits.maxEntries)
  }

  #tooLarge(what: string, max: number): SandglassError {
    return new SandglassError('IMAGE_TOO_LARGE', { image: this.#image, what, max })
  }
}

/** Headers and padding of the entries are part of a tar and not of its files. */
const TAR_OVERHEAD = 1024 * 1024
