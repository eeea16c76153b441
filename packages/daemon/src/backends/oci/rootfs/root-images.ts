// What machines of this backend start from: the host's own folders, or the unpacked layers of an image below an overlay layer of ours.
import { mkdir, readdir, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Readable } from 'node:stream'
import { LIMITS } from '@sandglass/contract/tables'
import { type DiskPolicy, reservedBytes } from '../../../data-dir/disk-policy.ts'
import { LayerFolders, type Unpacked, type UnpackLimits } from '../../../layers/layer-folders.ts'
import { openLayer } from '../../../layers/layer-tar.ts'
import type { ImageLayer, LayeredImage, MachineRoot, TrustedCa } from '../../backend.ts'
import { PromisedSpace } from '../../disk/promised-space.ts'
import { unsupported } from '../../machine/refusals.ts'
import type { FoundPaths } from '../../rootfs/found-paths.ts'
import { type HostRootfs, type Layer, prepareHost } from '../../rootfs/host-image.ts'
import { OVERLAY_LAYERS, overlayLayerPrefix, prepareOverlayLayer } from '../../rootfs/overlay-layer.ts'
import { isOutdated, plainName, variantName } from '../../rootfs/trust/variants.ts'
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
/** Prefix of the keys of root filesystems for steps of image builds. */
const BUILD_KEY = 'build '

interface LayeredRoot {
  readonly image: LayeredImage
  readonly trust: TrustedCa | null
  readonly isBuild: boolean
}

export class RootImages {
  readonly #paths: OciPaths
  readonly #launcher: Launcher
  readonly #folders: LayerFolders
  readonly #rootless: boolean
  readonly #disk: DiskPolicy
  /** By image id, with the mark of the certificate authority. Concurrent starts from one image share the work. */
  readonly #ready = new Map<string, Promise<Rootfs>>()
  /** By mark of the certificate authority, '' for none. */
  readonly #hosts = new Map<string, { readonly root: HostRootfs; readonly freshUntil: number }>()

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
    return (await this.#makeHost(null, 0)).name
  }

  /** Makes an image ready to start from. */
  async prepare(host: Host, root: MachineRoot, signal: AbortSignal): Promise<void> {
    if (root.image.kind === 'layers') await this.rootfs(host, root, signal)
    else if (Date.now() >= (this.#hosts.get(variantName('', root.trust))?.freshUntil ?? 0))
      await this.#makeHost(root.trust, HOST_FRESH_MS)
  }

  async rootfs(host: Host, { image, trust, isBuild = false }: MachineRoot, signal: AbortSignal): Promise<Rootfs> {
    if (image.kind === 'host') {
      const known = this.#hosts.get(variantName('', trust))?.root
      return { ...(known ?? (await this.#makeHost(trust, HOST_FRESH_MS))), user: 'sandbox' }
    }
    const key = `${isBuild ? BUILD_KEY : ''}${variantName(image.id, trust)}`
    const making = this.#ready.get(key) ?? this.#make(host, { image, trust, isBuild }, signal)
    this.#ready.set(key, making)
    try {
      return await making
    } catch (error) {
      if (this.#ready.get(key) === making) this.#ready.delete(key)
      throw error
    }
  }

  async #makeHost(trust: TrustedCa | null, freshMs: number): Promise<HostRootfs> {
    const root = await prepareHost(this.#paths.images, trust)
    this.#hosts.set(variantName('', trust), { root, freshUntil: Date.now() + freshMs })
    return root
  }

  async #make(host: Host, { image, trust, isBuild }: LayeredRoot, signal: AbortSignal): Promise<Rootfs> {
    if (!host.privateLayers)
      throw unsupported(
        `the image ${image.reference}: this kernel gives this user no overlay mounts`,
        'run the daemon as root or on Linux 5.11 or later, or use --backend microvm',
      )
    for (const layer of image.layers) await this.#unpackMissing(image, layer, signal)
    const dir = join(this.#paths.images, OVERLAY_LAYERS)
    const overlay = await prepareOverlayLayer(dir, image, trust, paths => this.#inspect(image, paths), isBuild)
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
  async prune(
    kept: readonly LayeredImage[],
    arriving: ReadonlySet<string>,
    used: ReadonlySet<string>,
    trust: TrustedCa | undefined,
  ): Promise<void> {
    const ids = new Set(kept.map(({ id }) => id))
    for (const key of this.#ready.keys())
      if (!ids.has(plainName(key.replace(BUILD_KEY, ''))) || isOutdated(key, trust)) this.#ready.delete(key)
    for (const key of this.#hosts.keys()) if (isOutdated(key, trust)) this.#hosts.delete(key)
    await this.#folders.prune(new Set([...arriving, ...kept.flatMap(({ layers }) => layers.map(({ diffId }) => diffId))]))
    const prefixes = new Set(kept.map(({ id }) => overlayLayerPrefix(id)))
    for (const name of await readdir(join(this.#paths.images, OVERLAY_LAYERS))) {
      if (used.has(name) || (prefixes.has(name.slice(0, 32)) && !isOutdated(name, trust))) continue
      await rm(join(this.#paths.images, OVERLAY_LAYERS, name), { recursive: true, force: true })
    }
    for (const name of await readdir(this.#paths.images))
      if (OUR_FOLDERS.test(name) && isOutdated(name, trust) && !used.has(name))
        await rm(join(this.#paths.images, name), { recursive: true, force: true })
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

  /** What an image has at these paths. */
  async find(image: LayeredImage, paths: readonly string[], signal: AbortSignal): Promise<FoundPaths> {
    for (const layer of image.layers) await this.#unpackMissing(image, layer, signal)
    return await this.#inspect(image, paths)
  }

  /** The layers of an image as a mount. */
  async stackOf(image: LayeredImage, signal: AbortSignal): Promise<Stack> {
    for (const layer of image.layers) await this.#unpackMissing(image, layer, signal)
    return this.#stack(this.#layerNames(image))
  }

  async #inspect(image: LayeredImage, paths: readonly string[]): Promise<FoundPaths> {
    const folder = join(this.#paths.run, 'inspect')
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const job = { find: { stack: this.#stack(this.#layerNames(image)), folder, paths } }
    // An image without layers has no files, and one folder cannot be mounted as an overlay.
    if (image.layers.length === 0) return {}
    return (await this.#launcher.run(job, AbortSignal.timeout(INSPECT_DEADLINE_MS))).found ?? {}
  }
}

const OUR_FOLDERS = /^(host|runner|launcher)-(v2-)?[0-9a-f]{16}(-ca-[0-9a-f]{16})?(\.[0-9a-f]+\.new)?$/

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
    if (!OUR_FOLDERS.test(name) || used.has(name) || used.has(plainName(name)) || (keepsRunners && name.startsWith('runner-')))
      continue
    await rm(join(imagesDir, name), { recursive: true, force: true })
  }
}
