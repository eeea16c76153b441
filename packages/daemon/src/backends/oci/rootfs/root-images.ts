// What machines of this backend start from: the host's own folders, or the unpacked layers of an image under a layer of ours.
import { mkdir, readdir, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Readable } from 'node:stream'
import { LIMITS } from '@sandglass/contract/tables'
import { type DiskPolicy, reservedBytes } from '../../../data-dir/disk-policy.ts'
import { LayerFolders, type Unpacked, type UnpackLimits } from '../../../layers/layer-folders.ts'
import { openLayer } from '../../../layers/layer-tar.ts'
import type { LayeredImage, RootImage } from '../../backend.ts'
import { DiskRoom } from '../../disk/promised-space.ts'
import { unsupported } from '../../machine/unsupported.ts'
import { type HostRootfs, type Layer, prepareHost } from '../../rootfs/host-image.ts'
import { LOOKED_AT, type Looked, prepareTop, topPrefix } from '../../rootfs/overlay-layer.ts'
import type { Launcher } from '../launcher/launcher.ts'
import type { OciPaths } from '../paths.ts'
import type { Host } from '../probe.ts'

/** A union of folders below `base`, highest first, in place of a layer's source. */
export interface Stack {
  readonly base: string
  readonly names: readonly string[]
  readonly scratch: string
  readonly user_xattrs: boolean
}

export interface Rootfs {
  /** What a machine's record calls it. */
  readonly name: string
  readonly layers: readonly (Layer & { readonly stack?: Stack })[]
  /** Of the user that programs run as. */
  readonly user: string
}

/** A change of the host's /etc shows in sessions made this long after it: looking costs some milliseconds. */
const HOST_FRESH_MS = 60_000
const LOOK_DEADLINE_MS = 20_000
/** What is in the store was within its image's limits when it came, but for folders that a tar only implies. */
const STORED = { maxBytes: Number.MAX_SAFE_INTEGER, maxEntries: LIMITS.image_entries.max }
const TOPS = 'tops'
const LAYERS = 'layers'

export class RootImages {
  readonly #paths: OciPaths
  readonly #launcher: Launcher
  readonly #folders: LayerFolders
  readonly #rootless: boolean
  readonly #disk: DiskPolicy
  /** By id; made once for all who start from it at the same time. */
  readonly #ready = new Map<string, Promise<Rootfs>>()
  #hostRoot: HostRootfs | null = null
  #hostFreshUntil = 0

  constructor(paths: OciPaths, launcher: Launcher, runnerFile: string, rootless: boolean, disk: DiskPolicy) {
    this.#paths = paths
    this.#launcher = launcher
    this.#rootless = rootless
    this.#disk = disk
    this.#folders = new LayerFolders(join(paths.images, LAYERS), runnerFile, rootless)
  }

  /** Name of the folder of the host's root. */
  async load(): Promise<string> {
    // While sessions are served: half a layer may be a great many files. What cannot be removed is tried at the next start.
    this.#folders.sweep().catch(() => undefined)
    for (const dir of [TOPS, LAYERS]) await mkdir(join(this.#paths.images, dir), { recursive: true, mode: 0o700 })
    for (const name of await readdir(join(this.#paths.images, TOPS)))
      if (name.endsWith('.new')) await rm(join(this.#paths.images, TOPS, name), { recursive: true, force: true })
    this.#hostRoot = await prepareHost(this.#paths.images)
    return this.#hostRoot.name
  }

  /** Makes an image ready to start from. */
  async prepare(host: Host, image: RootImage, signal: AbortSignal): Promise<void> {
    if (image.kind === 'layers') await this.rootfs(host, image, signal)
    else if (Date.now() >= this.#hostFreshUntil) {
      this.#hostRoot = await prepareHost(this.#paths.images)
      this.#hostFreshUntil = Date.now() + HOST_FRESH_MS
    }
  }

  async rootfs(host: Host, image: RootImage, signal: AbortSignal): Promise<Rootfs> {
    if (image.kind === 'host') return { ...(this.#hostRoot ?? (await prepareHost(this.#paths.images))), user: 'sandbox' }
    const making = this.#ready.get(image.id) ?? this.#make(host, image, signal)
    this.#ready.set(image.id, making)
    try {
      return await making
    } catch (error) {
      if (this.#ready.get(image.id) === making) this.#ready.delete(image.id)
      throw error
    }
  }

  async #make(host: Host, image: LayeredImage, signal: AbortSignal): Promise<Rootfs> {
    if (!host.privateLayers)
      throw unsupported(
        `the image ${image.reference}: this kernel gives this user no overlay mounts`,
        'run the daemon as root or on Linux 5.11 or later, or use --backend microvm',
      )
    for (const layer of image.layers) await this.#unpackMissing(image, layer, signal)
    const top = await prepareTop(join(this.#paths.images, TOPS), image.id, () => this.#look(image))
    const names = [`${TOPS}/${top.name}`, ...this.#layerNames(image)]
    const stack: Stack = { ...this.#stack(names), scratch: host.noWritableRoot === null ? this.#paths.empty : '' }
    return {
      name: top.name,
      layers: [{ source: this.#paths.images, target: '/', recursive: false, writable: true, stack }],
      user: top.user,
    }
  }

  async receive(image: string, diffId: string, tar: Readable, limits: UnpackLimits, signal: AbortSignal): Promise<Unpacked> {
    if (!this.#folders.has(diffId)) return await this.#folders.unpack(image, diffId, tar, limits, signal)
    // It is here already; what comes is still to be what it says.
    for await (const _ of tar) signal.throwIfAborted()
    return { entries: 0, bytes: 0 }
  }

  async prune(kept: readonly LayeredImage[], held: ReadonlySet<string>, tops: ReadonlySet<string>): Promise<void> {
    const ids = new Set(kept.map(({ id }) => id))
    for (const id of this.#ready.keys()) if (!ids.has(id)) this.#ready.delete(id)
    await this.#folders.prune(new Set([...held, ...kept.flatMap(({ layers }) => layers.map(({ diffId }) => diffId))]))
    const prefixes = new Set(kept.map(({ id }) => topPrefix(id)))
    for (const name of await readdir(join(this.#paths.images, TOPS))) {
      if (tops.has(name) || prefixes.has(name.slice(0, 32))) continue
      await rm(join(this.#paths.images, TOPS, name), { recursive: true, force: true })
    }
  }

  async #unpackMissing(image: LayeredImage, { diffId, blob, compression }: LayeredImage['layers'][number], signal: AbortSignal) {
    if (this.#folders.has(diffId)) return
    const tar = openLayer(blob, { image: image.reference, diffId, compression })
    // SECURITY: a sandbox within its limit that finds no byte on the host loses what it wrote.
    const { total, promised } = await new DiskRoom(this.#paths.sessions).read()
    const limits = { ...STORED, reserveBytes: reservedBytes(this.#disk, total, promised.values()) }
    await this.#folders.unpack(image.reference, diffId, tar, limits, signal)
  }

  #layerNames({ layers }: LayeredImage): string[] {
    // An image may have a layer twice, and an overlay takes no folder twice: what the upper one shows is all that the two would.
    // An overlay without an upper layer needs two lower ones, and an image may have none.
    const folders = layers.map(({ diffId }) => `${LAYERS}/${basename(this.#folders.folder(diffId))}`).toReversed()
    return [...new Set(folders), basename(this.#paths.empty)]
  }

  #stack(names: readonly string[]): Stack {
    return { base: this.#paths.images, names, scratch: '', user_xattrs: this.#rootless }
  }

  async #look(image: LayeredImage): Promise<Looked> {
    const folder = join(this.#paths.run, 'look')
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const job = { look: { stack: this.#stack(this.#layerNames(image)), folder, paths: LOOKED_AT } }
    // With no layers there is nothing to look at, and one folder is no union.
    if (image.layers.length === 0) return {}
    return (await this.#launcher.run(job, AbortSignal.timeout(LOOK_DEADLINE_MS))).looked ?? {}
  }
}
