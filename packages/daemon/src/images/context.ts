// Images: root filesystems for sessions. store/ keeps them, pull/ and archive/ bring them in, build/ makes them, registry/ talks to registries.
// This file holds what all of them work with; the daemon's context includes it.
import { mkdir, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config, Image } from '@sandglass/contract'
import type { Backend, LayeredImage, TrustedCa } from '../backends/backend.ts'
import { diskPolicy, reservedBytes } from '../data-dir/disk-policy.ts'
import { KeyedMutex } from '../lib/keyed-mutex.ts'
import { Semaphore } from '../lib/semaphore.ts'
import { SingleFlight } from '../lib/single-flight.ts'
import type { Logger } from '../log.ts'
import type { Store } from '../store/open.ts'
import type { Built } from './build/build-layer.ts'
import type { BuildLog } from './build/build-log.ts'
import type { BuildMachines } from './build/session/build-machine.ts'
import type { Progress } from './pull/progress.ts'
import { Blobs } from './store/blobs.ts'
import { prune } from './store/prune.ts'

export type ImageContext = {
  readonly config: Readonly<Config>
  readonly store: Store
  readonly backends: ReadonlyMap<string, Backend>
  readonly images: ImageState
  /** Sandboxes for builds without a Docker engine. */
  readonly buildMachines?: BuildMachines
  /** The certificate authority for starts; undefined while there is none. */
  readonly trusted?: () => Promise<TrustedCa | undefined>
  readonly log: Logger
  readonly now: () => number
}

export type ImageState = {
  readonly blobs: Blobs
  /** Folder for uploads: archives and build contexts. */
  readonly importDir: string
  readonly pins: Pins
  /** Images of builds that run, which are not in the store: what backends made of them is not pruned. */
  readonly building: Set<LayeredImage>
  /** Running pulls, by image name. */
  readonly pulls: SingleFlight<Image, Progress>
  /** Held per digest while a layer is written. */
  readonly layerMutex: KeyedMutex
  /** Settles when the prune that was requested last has ended. */
  pruning: Promise<unknown>
  /** Running builds, by build key. */
  readonly builds: SingleFlight<Built, BuildLog>
  readonly buildSlots: Semaphore
}

/** Each running build may use images.build_memory_mb and images.build_cpu_cores. */
const MAX_CONCURRENT_BUILDS = 2

export function imageState(dataDir: string): ImageState {
  const dir = join(dataDir, 'images')
  return {
    blobs: new Blobs(join(dir, 'blobs')),
    importDir: join(dir, 'import'),
    pins: new Pins(),
    building: new Set(),
    pulls: new SingleFlight(),
    layerMutex: new KeyedMutex(),
    pruning: Promise.resolve(),
    builds: new SingleFlight(),
    buildSlots: new Semaphore(MAX_CONCURRENT_BUILDS),
  }
}

/** Called once when the daemon starts: removes unfinished uploads. Partial downloads stay, because a pull can resume them. */
export async function openImages(context: ImageContext): Promise<void> {
  const { images, log } = context
  await images.blobs.open()
  await rm(images.importDir, { recursive: true, force: true })
  await mkdir(images.importDir, { mode: 0o700 })
  // In the background: there may be many files, and a damaged disk must not keep the daemon from starting.
  prune(context).catch(err => log.warn({ err }, 'pruning images failed'))
}

/** Reference counts of image ids, blob digests and diff ids that running operations need. Pruning and removal skip pinned ones. */
export class Pins {
  readonly #counts = new Map<string, number>()

  /** Returns the function that unpins the keys; calling it twice is the same as once. */
  pin(keys: Iterable<string>): () => void {
    const pinned = [...keys]
    for (const key of pinned) this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
    return () => {
      for (const key of pinned.splice(0)) {
        const left = (this.#counts.get(key) ?? 1) - 1
        if (left > 0) this.#counts.set(key, left)
        else this.#counts.delete(key)
      }
    }
  }

  has(key: string): boolean {
    return this.#counts.has(key)
  }

  keys(): Iterable<string> {
    return this.#counts.keys()
  }
}

/** Bytes of the disk that images must leave free. */
export async function reserveBytes({ backends, config, images }: ImageContext): Promise<number> {
  // Keyed by session id: backends that share a sessions folder each report all sessions in it.
  const promised = new Map<string, number>()
  for (const backend of backends.values()) {
    if (diskPolicy(config, backend.name).overcommit === Number.POSITIVE_INFINITY) continue
    for (const [id, bytes] of (await backend.diskSpace?.())?.promised ?? []) promised.set(id, bytes)
  }
  const { blocks, bsize } = await statfs(images.importDir)
  const { disk, disk_floor_mb } = config.overcommit
  return reservedBytes({ overcommit: disk, floorMb: disk_floor_mb }, blocks * bsize, promised.values())
}

export async function freeBytes(dir: string): Promise<number> {
  const { bavail, bsize } = await statfs(dir)
  return bavail * bsize
}
