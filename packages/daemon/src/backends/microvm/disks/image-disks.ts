// Disks of machines: images become squashfs disks, and each session has an ext4 disk. This file makes the disks of images once, and keeps them
// while a session or a later start may need them.
import { renameSync } from 'node:fs'
import { readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { namesIn, nullIfMissing } from '../../../lib/missing-file.ts'
import type { LayeredImage, RootImage } from '../../backend.ts'
import { launcherBeside } from '../../launcher/program.ts'
import { overlayLayerPrefix } from '../../rootfs/overlay-layer.ts'
import { UNUSED_MS } from '../cached-files.ts'
import type { MicrovmPaths } from '../paths.ts'
import type { Host } from '../probe.ts'
import { type HostDisks, prepareHostDisks } from './host-disk.ts'
import { imageFile, prepareLayerDisks } from './layer-disk.ts'
import type { SpareSpace } from './spare-space.ts'

/** The disks of one image. `image` and `overlay` are file names in the folder of disks. */
export interface ImageDisk {
  readonly image: string
  /** Disk of the overlay layer, which is mounted over the image. */
  readonly overlay: string
  /** Number of layer folders on the image's disk; 0 if the disk itself is the only layer. */
  readonly layers: number
  /** Name of the user that programs run as. */
  readonly user: string
}

/** The host's programs are checked for changes at most this often, because a check takes some milliseconds. */
const HOST_FRESH_MS = 60_000

/** An empty file. Its modification time is the last use of the host's disks. */
const HOST_USED = 'host-used'

const HOSTS = /^(programs|host)-[0-9a-f]+\.sqfs$/

type Tools = Pick<Host, 'mksquashfs' | 'sqfstar'>

export class ImageDisks {
  readonly #paths: MicrovmPaths
  readonly #runnerPath: string
  readonly #space: SpareSpace
  readonly #used: () => Promise<ReadonlySet<string>>
  readonly #making = new Map<string, Promise<ImageDisk>>()
  readonly #now: () => number
  /** Set when the host's disks are complete; infinite while they are being made. */
  #hostFreshUntil = Number.POSITIVE_INFINITY

  /** `used` returns the names of disks that sessions use. */
  constructor(
    paths: MicrovmPaths,
    runnerPath: string,
    space: SpareSpace,
    used: () => Promise<ReadonlySet<string>>,
    now: () => number = Date.now,
  ) {
    this.#paths = paths
    this.#runnerPath = runnerPath
    this.#space = space
    this.#used = used
    this.#now = now
  }

  /** Makes the disks of an image if they do not exist. Concurrent callers share the work. */
  async prepare(host: Tools, image: RootImage, signal: AbortSignal, report: (step: string) => void): Promise<ImageDisk> {
    const key = image.kind === 'host' ? 'host' : image.id
    if (key === 'host' && this.#now() > this.#hostFreshUntil) this.#making.delete(key)
    const making = this.#making.get(key) ?? this.#make(host, image, signal, report)
    this.#making.set(key, making)
    try {
      return await making
    } catch (error) {
      if (this.#making.get(key) === making) this.#making.delete(key)
      throw error
    }
  }

  /** Removes the disks of images that are not in `kept` and that no session uses. */
  async prune(kept: readonly LayeredImage[]): Promise<void> {
    const ids = new Set(['host', ...kept.map(({ id }) => id)])
    for (const key of this.#making.keys()) if (!ids.has(key)) this.#making.delete(key)
    // A failure is reported to the caller of prepare() and leaves no disk.
    const current = await Promise.all([...this.#making.values()].map(async making => await making.catch(() => null)))
    const names = new Set([
      ...(await this.#used()),
      ...current.flatMap(disk => (disk === null ? [] : [disk.image, disk.overlay])),
    ])
    const prefixes = kept.flatMap(({ id }) => [overlayLayerPrefix(id), imageFile(id)])
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
    // Renamed in the same tick as the check for a running prepare(), so that a later prepare() finds no disk and makes it.
    if (Date.now() - Math.max(...used) < UNUSED_MS || this.#making.has('host')) return
    renameSync(path, `${path}.old`)
    await rm(`${path}.old`, { force: true })
  }

  async #make(host: Tools, image: RootImage, signal: AbortSignal, report: (step: string) => void): Promise<ImageDisk> {
    const tools = { ...host, launcherPath: launcherBeside(this.#runnerPath), space: this.#space }
    if (image.kind === 'layers') return await prepareLayerDisks(tools, this.#paths, image, signal, report)
    this.#hostFreshUntil = Number.POSITIVE_INFINITY
    const disks = await prepareHostDisks(tools, this.#paths, signal, report)
    await this.#removeHosts(disks)
    await writeFile(join(this.#paths.disks, HOST_USED), '')
    this.#hostFreshUntil = this.#now() + HOST_FRESH_MS
    return { ...disks, layers: 0, user: 'sandbox' }
  }

  /** Removes the disks of earlier states of the host, which are large. */
  async #removeHosts({ image, overlay }: HostDisks): Promise<void> {
    const used = new Set([...(await this.#used()), image, overlay])
    for (const name of await readdir(this.#paths.disks))
      if (HOSTS.test(name) && !used.has(name)) await rm(join(this.#paths.disks, name), { force: true })
  }
}
