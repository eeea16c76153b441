// Images as disks: made once, kept while a session or the next start may need them.
import { renameSync } from 'node:fs'
import { readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { namesIn, nullIfMissing } from '../../../lib/missing-file.ts'
import type { LayeredImage, RootImage } from '../../backend.ts'
import { topPrefix } from '../../rootfs/overlay-layer.ts'
import type { MicrovmPaths } from '../paths.ts'
import type { Host } from '../probe.ts'
import { type HostDisks, prepareHostDisks } from './host-disk.ts'
import { imageFile, prepareLayerDisks } from './layer-disk.ts'
import type { SpareRoom } from './spare-space.ts'
import { UNUSED_MS } from './unused.ts'

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

/** Empty; its time is when this host's programs were last asked for. */
const HOST_USED = 'host-used'

const HOSTS = /^(programs|host)-[0-9a-f]+\.sqfs$/

type Tools = Pick<Host, 'mksquashfs' | 'sqfstar'>

export class ImageDisks {
  readonly #paths: MicrovmPaths
  readonly #runnerPath: string
  readonly #room: SpareRoom
  readonly #used: () => Promise<ReadonlySet<string>>
  readonly #making = new Map<string, Promise<ImageDisk>>()
  readonly #now: () => number
  /** Counted from when it was made; while it is being made there is no end. */
  #hostFreshUntil = Number.POSITIVE_INFINITY

  /** `used` tells the files that sessions have. */
  constructor(
    paths: MicrovmPaths,
    runnerPath: string,
    room: SpareRoom,
    used: () => Promise<ReadonlySet<string>>,
    now: () => number = Date.now,
  ) {
    this.#paths = paths
    this.#runnerPath = runnerPath
    this.#room = room
    this.#used = used
    this.#now = now
  }

  /** The disk of an image, made if it is not there. Those who ask at the same time wait for the same one. */
  async prepare(host: Tools, image: RootImage, signal: AbortSignal, say: (step: string) => void): Promise<ImageDisk> {
    const key = image.kind === 'host' ? 'host' : image.id
    if (key === 'host' && this.#now() > this.#hostFreshUntil) this.#making.delete(key)
    const making = this.#making.get(key) ?? this.#make(host, image, signal, say)
    this.#making.set(key, making)
    try {
      return await making
    } catch (error) {
      if (this.#making.get(key) === making) this.#making.delete(key)
      throw error
    }
  }

  /** Removes disks of other images than these that no session has. */
  async prune(kept: readonly LayeredImage[]): Promise<void> {
    const ids = new Set(['host', ...kept.map(({ id }) => id)])
    for (const key of this.#making.keys()) if (!ids.has(key)) this.#making.delete(key)
    // What fails is told to whoever asked for it, and leaves no disk.
    const current = await Promise.all([...this.#making.values()].map(async making => await making.catch(() => null)))
    const names = new Set([...(await this.#used()), ...current.flatMap(disk => (disk === null ? [] : [disk.image, disk.top]))])
    const prefixes = kept.flatMap(({ id }) => [topPrefix(id), imageFile(id)])
    for (const name of await namesIn(this.#paths.disks)) {
      if (name === HOST_USED || names.has(name) || prefixes.some(prefix => name.startsWith(prefix))) continue
      if (HOSTS.test(name)) await this.#removeUnused(name)
      else await rm(join(this.#paths.disks, name), { recursive: true, force: true })
    }
  }

  async #removeUnused(name: string): Promise<void> {
    const path = join(this.#paths.disks, name)
    const marker = join(this.#paths.disks, HOST_USED)
    const used = await Promise.all([path, marker].map(async file => (await stat(file).catch(nullIfMissing))?.mtimeMs ?? 0))
    // At once with the look whether somebody prepares it: whoever comes later finds nothing, and makes it.
    if (Date.now() - Math.max(...used) < UNUSED_MS || this.#making.has('host')) return
    renameSync(path, `${path}.old`)
    await rm(`${path}.old`, { force: true })
  }

  async #make(host: Tools, image: RootImage, signal: AbortSignal, say: (step: string) => void): Promise<ImageDisk> {
    const tools = { ...host, runnerPath: this.#runnerPath, room: this.#room }
    if (image.kind === 'layers') return await prepareLayerDisks(tools, this.#paths, image, signal, say)
    this.#hostFreshUntil = Number.POSITIVE_INFINITY
    const disks = await prepareHostDisks(tools, this.#paths, signal, say)
    await this.#removeHosts(disks)
    await writeFile(join(this.#paths.disks, HOST_USED), '')
    this.#hostFreshUntil = this.#now() + HOST_FRESH_MS
    return { ...disks, layers: 0, user: 'sandbox' }
  }

  /** Disks of earlier states of the host are large. */
  async #removeHosts({ image, top }: HostDisks): Promise<void> {
    const used = new Set([...(await this.#used()), image, top])
    for (const name of await readdir(this.#paths.disks))
      if (HOSTS.test(name) && !used.has(name)) await rm(join(this.#paths.disks, name), { force: true })
  }
}
