// What the verbs of images work with; the daemon's world has it.
import { statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config, Image } from '@sandglass/contract'
import type { Backend } from '../backends/backend.ts'
import { diskPolicy, reservedBytes } from '../data-dir/disk-policy.ts'
import { Semaphore } from '../lib/semaphore.ts'
import { SingleFlight } from '../lib/single-flight.ts'
import type { Logger } from '../log.ts'
import type { Store } from '../store/open.ts'
import type { Built } from './build/build-layer.ts'
import type { BuildLog } from './build/build-log.ts'
import type { Progress } from './pull/progress.ts'
import { Blobs } from './store/blobs.ts'
import { Holds } from './store/holds.ts'

export type ImageWorld = {
  readonly config: Readonly<Config>
  readonly store: Store
  readonly backends: ReadonlyMap<string, Backend>
  readonly images: ImageState
  readonly log: Logger
  readonly now: () => number
}

export type ImageState = {
  readonly blobs: Blobs
  /** Where archives are taken apart. */
  readonly importDir: string
  /** Ids and digests that something under way needs. */
  readonly held: Holds
  /** Pulls under way, by name. */
  readonly pulls: SingleFlight<Image, Progress>
  /** Layers that are being written, by digest. */
  readonly arriving: Map<string, Promise<void>>
  /** Settles with the last removal that was asked for. */
  pruning: Promise<unknown>
  /** Builds under way, by their key. */
  readonly builds: SingleFlight<Built, BuildLog>
  readonly buildSlots: Semaphore
}

/** A step of a build takes what images.build_memory_mb and build_cpu_cores say. */
const BUILDS_AT_ONCE = 2

/** Below images/ in the data folder. */
export function imageState(dataDir: string): ImageState {
  const dir = join(dataDir, 'images')
  return {
    blobs: new Blobs(join(dir, 'blobs')),
    importDir: join(dir, 'import'),
    held: new Holds(),
    pulls: new SingleFlight(),
    arriving: new Map(),
    pruning: Promise.resolve(),
    builds: new SingleFlight(),
    buildSlots: new Semaphore(BUILDS_AT_ONCE),
  }
}

/** Bytes of the disk that images leave free. */
export async function reserveBytes({ backends, config, images }: ImageWorld): Promise<number> {
  // By session: backends whose disks are in one folder each tell of all that is in there.
  const promised = new Map<string, number>()
  for (const backend of backends.values()) {
    if (diskPolicy(config, backend.name).overcommit === Number.POSITIVE_INFINITY) continue
    for (const [id, bytes] of (await backend.room?.())?.promised ?? []) promised.set(id, bytes)
  }
  const { blocks, bsize } = await statfs(images.importDir)
  const { disk, disk_floor_mb } = config.overcommit
  return reservedBytes({ overcommit: disk, floorMb: disk_floor_mb }, blocks * bsize, promised.values())
}

export async function freeBytes(dir: string): Promise<number> {
  const { bavail, bsize } = await statfs(dir)
  return bavail * bsize
}
