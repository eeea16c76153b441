// The size limits of one image, counted over all of its layers, which may be unpacked concurrently.
import { LIMITS, SandglassError } from '@sandglass/contract'
import type { Unpacked, UnpackLimits } from '../../layers/layer-folders.ts'

/** A tar is larger than its files: it also has headers and padding. */
const TAR_OVERHEAD = 1024 * 1024

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

  get limits(): UnpackLimits {
    return this.#limits
  }

  /** SECURITY: called for each piece as it is decompressed, so that a decompression bomb stops at the limit. */
  addTarBytes(bytes: number): void {
    this.#tarBytes += bytes
    if (this.#tarBytes > this.#limits.maxBytes + TAR_OVERHEAD) throw this.#tooLarge('bytes', this.#limits.maxBytes)
  }

  /** Counted separately from tar bytes: sparse files unpack to more bytes than their tar has. */
  addUnpacked({ bytes, entries }: Unpacked): void {
    this.#bytes += bytes
    this.#entries += entries
    if (this.#bytes > this.#limits.maxBytes) throw this.#tooLarge('bytes', this.#limits.maxBytes)
    if (this.#entries > this.#limits.maxEntries) throw this.#tooLarge('entries', this.#limits.maxEntries)
  }

  #tooLarge(what: string, max: number): SandglassError {
    return new SandglassError('IMAGE_TOO_LARGE', { image: this.#image, what, max })
  }
}
