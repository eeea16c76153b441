// What machines of this backend start from: the host's own folders, or the unpacked layers of an image below an overlay layer of ours.
import { mkdir, readdir, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Readable } from 'node:stream'
import { LIMITS } from '@sandglass/contract/tables'
import { type DiskPolicy, reservedBytes } from '../../../data-dir/disk-policy.ts'
import { LayerFolders, type Unpacked, type UnpackLimits } from '../../../layers/layer-folders.ts'
import { openLayer } from '../../../layers/layer-tar.ts'
import type { ImageLayer, LayeredImage, RootImage } from '../../backend.ts'
import { PromisedSpace } from '../../disk/promised-space.ts'
import { unsupported } from '../../machine/refusals.ts'
import { type HostRootfs, type Layer, prepareHost } from '../../rootfs/host-image.ts'
import {
  type FoundPaths,
  INSPECTED_PATHS,
  OVERLAY_LAYERS,
  overlayLayerPrefix,
  prepareOverlayLayer,
} from '../../rootfs/overlay-layer.ts'
import type { Launcher } from '../launcher/launcher.ts'
import type { OciPaths } from '../paths.ts'
import type { Host } from '../probe.ts'
import type { MachineRecord } from '../record.ts'

/** An overlay mount of folders below `base`, highest first, used as the source of a layer. */
export interface Stack {
  readonly base: string
  readonly names: readonly string[]
  readonly scratch: string
  readonly user_xattrs: boolean
}

export interface Rootfs {
  /** The name in a machine's record. */
  readonly name: string
  readonly layers: readonly (Layer & { readonly stack?: Stack })[]
  /** Name of the user that programs run as. */
  readonly user: string
}

/** Changes of the host's /etc are visible in sessions created at most this long after: checking for changes takes some milliseconds. */
const HOST_FRESH_MS = 60_000
const INSPECT_DEADLINE_MS = 20_000
/** Images were checked against these limits when they entered the store, except for folders that a tar only implies. */
const STORED = { maxBytes: Number.MAX_SAFE_INTEGER, maxEntries: LIMITS.image_entries.max }
const LAYERS = 'layers'

export class RootImages {
  readonly #paths: OciPaths
  readonly #launcher: Launcher
  readonly #folders: LayerFolders
  readonly #rootless: boolean
  readonly #disk: DiskPolicy
  /** By image id. Concurrent starts from one image share the work. */
  readonly #ready = new Map<string, Promise<Rootfs>>()
  #hostRoot: HostRootfs | null = null
  #hostFreshUntil = 0

  constructor(paths: OciPaths, launcher: Launcher, rootless: boolean, disk: DiskPolicy) {
    this.#paths = paths
    this.#launcher = launcher
    this.#rootless = rootless
    this.#disk = disk
    this.#folders = new LayerFolders(join(paths.images, LAYERS), launcher.program, rootless)
  }

  /** Removes partial layers and prepares the host's root. Returns the name of its folder. */
  async load(): Promise<string> {
    // In the background: a partial layer may have very many files. What cannot be removed is tried again when the next daemon starts.
    this.#folders.sweep().catch(() => undefined)
    for (const dir of [OVERLAY_LAYERS, LAYERS]) await mkdir(join(this.#paths.images, dir), { recursive: true, mode: 0o700 })
    for (const name of await readdir(join(this.#paths.images, OVERLAY_LAYERS)))
      if (name.endsWith('.new')) await rm(join(this.#paths.images, OVERLAY_LAYERS, name), { recursive: true, force: true })
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
    const overlay = await prepareOverlayLayer(join(this.#paths.images, OVERLAY_LAYERS), image.id, () => this.#inspect(image))
    const names = [`${OVERLAY_LAYERS}/${overlay.name}`, ...this.#layerNames(image)]
    const stack: Stack = { ...this.#stack(names), scratch: host.noWritableRoot === null ? this.#paths.empty : '' }
    return {
      name: overlay.name,
      layers: [{ source: this.#paths.images, target: '/', recursive: false, writable: true, stack }],
      user: overlay.user,
    }
  }

  async receive(image: string, diffId: string, tar: Readable, limits: UnpackLimits, signal: AbortSignal): Promise<Unpacked> {
    if (!this.#folders.has(diffId)) return await this.#folders.unpack(image, diffId, tar, limits, signal)
    // The layer is unpacked already. The stream is still read to its end, because it fails there if its digest is wrong.
    for await (const _ of tar) signal.throwIfAborted()
    return { entries: 0, bytes: 0 }
  }

  /** `used` are the names of root filesystems that machines were started from. */
  async prune(kept: readonly LayeredImage[], arriving: ReadonlySet<string>, used: ReadonlySet<string>): Promise<void> {
    const ids = new Set(kept.map(({ id }) => id))
    for (const id of this.#ready.keys()) if (!ids.has(id)) this.#ready.delete(id)
    await this.#folders.prune(new Set([...arriving, ...kept.flatMap(({ layers }) => layers.map(({ diffId }) => diffId))]))
    const prefixes = new Set(kept.map(({ id }) => overlayLayerPrefix(id)))
    for (const name of await readdir(join(this.#paths.images, OVERLAY_LAYERS))) {
      if (used.has(name) || prefixes.has(name.slice(0, 32))) continue
      await rm(join(this.#paths.images, OVERLAY_LAYERS, name), { recursive: true, force: true })
    }
  }

  async #unpackMissing(image: LayeredImage, { diffId, blob, compression }: ImageLayer, signal: AbortSignal): Promise<void> {
    if (this.#folders.has(diffId)) return
    const tar = openLayer(blob, { image: image.reference, diffId, compression })
    // SECURITY: a sandbox that is within its disk limit loses data if the host's disk is full when it writes.
    const { total, promised } = await new PromisedSpace(this.#paths.sessions).read()
    const limits = { ...STORED, reserveBytes: reservedBytes(this.#disk, total, promised.values()) }
    await this.#folders.unpack(image.reference, diffId, tar, limits, signal)
  }

  #layerNames({ layers }: LayeredImage): string[] {
    // An overlay mount takes no folder twice, but an image may repeat a layer: the upper one alone gives the same content.
    // An overlay mount without an upper layer needs two lower ones, but an image may have none: hence the empty folder.
    const folders = layers.map(({ diffId }) => `${LAYERS}/${basename(this.#folders.folder(diffId))}`).toReversed()
    return [...new Set(folders), basename(this.#paths.empty)]
  }

  #stack(names: readonly string[]): Stack {
    return { base: this.#paths.images, names, scratch: '', user_xattrs: this.#rootless }
  }

  async #inspect(image: LayeredImage): Promise<FoundPaths> {
    const folder = join(this.#paths.run, 'inspect')
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const job = { find: { stack: this.#stack(this.#layerNames(image)), folder, paths: INSPECTED_PATHS } }
    // An image without layers has no files, and one folder cannot be mounted as an overlay.
    if (image.layers.length === 0) return {}
    return (await this.#launcher.run(job, AbortSignal.timeout(INSPECT_DEADLINE_MS))).found ?? {}
  }
}

const OUR_FOLDERS = /^(host|runner|launcher)-(v2-)?[0-9a-f]{16}(\.[0-9a-f]+\.new)?$/

/** Removes host roots and programs of earlier states of the host and earlier versions, except `current` and those of existing machines. */
export async function pruneOldFolders(
  imagesDir: string,
  current: readonly string[],
  records: readonly MachineRecord[],
): Promise<void> {
  const used = new Set([...current, ...records.flatMap(({ rootfs, runner }) => [rootfs, runner ?? ''])])
  // A record of an earlier version does not name its runner.
  const keepsRunners = records.some(({ runner }) => runner === undefined)
  for (const name of await readdir(imagesDir)) {
    if (!OUR_FOLDERS.test(name) || used.has(name) || (keepsRunners && name.startsWith('runner-'))) continue
    await rm(join(imagesDir, name), { recursive: true, force: true })
  }
}
