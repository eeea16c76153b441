// What containers start from: the host's own folders or an image of the image store, sent to the engine with an overlay layer of ours on top.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import type { LayeredImage, MachineRoot, TrustedCa } from '../../backend.ts'
import { findInLayers } from '../../rootfs/find-in-layers.ts'
import { prepareHost } from '../../rootfs/host-image.ts'
import { OVERLAY_LAYERS, prepareOverlayLayer } from '../../rootfs/overlay-layer.ts'
import { isOutdated, plainName, variantName } from '../../rootfs/trust/variants.ts'
import { ignoreStatus } from '../engine/engine.ts'
import { IMAGE_LABEL, OWNER_LABEL } from '../engine/names.ts'
import { refuseDevices } from './devices.ts'
import { checkDepth, ensureImage, folderLayer, withLayerFiles } from './engine-image.ts'
import { inScratch } from './scratch.ts'

export interface Root {
  /** The image's id in the engine. */
  readonly image: string
  /** Bind mounts of folders that belong to it, in the engine's format. */
  readonly binds: readonly string[]
  /** Name of the user that programs run as. */
  readonly user: string
}

type Labels = Readonly<Record<string, string>>

export class RootImages {
  readonly #imagesDir: string
  readonly #owner: string
  readonly #launcherPath: string
  readonly #roots = new Map<string, Root>()

  constructor(imagesDir: string, owner: string, launcherPath: string) {
    this.#imagesDir = imagesDir
    this.#owner = owner
    this.#launcherPath = launcherPath
  }

  async root(engine: Docker, { image, trust }: MachineRoot, signal: AbortSignal): Promise<Root> {
    const key = variantName(image.kind === 'host' ? 'host' : image.id, trust)
    const known = this.#roots.get(key)
    if (known !== undefined) return known
    await mkdir(this.#imagesDir, { recursive: true, mode: 0o700 })
    const labels = { [OWNER_LABEL]: this.#owner, [IMAGE_LABEL]: key }
    const root =
      image.kind === 'host'
        ? await this.#hostRoot(engine, trust, labels, signal)
        : await this.#imageRoot(engine, image, trust, labels, signal)
    this.#roots.set(key, root)
    return root
  }

  /** Called when an image is missing in the engine: somebody else has removed it. */
  forgetAll(): void {
    this.#roots.clear()
  }

  /** Removes images from the engine that were made of other images than these. */
  async prune(engine: Docker, kept: readonly LayeredImage[], trust: TrustedCa | undefined): Promise<void> {
    const keys = new Set(['host', ...kept.map(({ id }) => id)])
    for (const image of await engine.listImages({ filters: { label: [`${OWNER_LABEL}=${this.#owner}`] } as never })) {
      const key = image.Labels?.[IMAGE_LABEL] ?? ''
      if ((keys.has(plainName(key)) && !isOutdated(key, trust)) || isForeign(image)) continue
      this.#roots.delete(key)
      // 409: a container or another image still uses it. The next prune tries again.
      await ignoreStatus(engine.getImage(image.Id).remove(), 404, 409)
    }
  }

  async #hostRoot(engine: Docker, trust: TrustedCa | null, labels: Labels, signal: AbortSignal): Promise<Root> {
    const [own, ...shared] = (await prepareHost(this.#imagesDir, trust)).layers
    if (own === undefined) throw new SandglassError('INTERNAL', { message: 'the host image has no root' })
    return {
      image: await inScratch(this.#imagesDir, async scratch => {
        return await ensureImage(engine, [await folderLayer(own.source, scratch)], labels, signal)
      }),
      binds: shared.map(({ source, target }) => `${source}:${target}:ro`),
      user: 'sandbox',
    }
  }

  async #imageRoot(
    engine: Docker,
    image: LayeredImage,
    trust: TrustedCa | null,
    labels: Labels,
    signal: AbortSignal,
  ): Promise<Root> {
    const folder = join(this.#imagesDir, OVERLAY_LAYERS)
    checkDepth(image, 1)
    await refuseDevices(image, this.#launcherPath, signal)
    const overlay = await prepareOverlayLayer(folder, image, trust, paths => findInLayers(image, paths, signal))
    return await withLayerFiles(image, this.#imagesDir, signal, async (layers, scratch) => {
      const all = [...layers, await folderLayer(join(folder, overlay.name), scratch)]
      return { image: await ensureImage(engine, all, labels, signal), binds: [], user: overlay.user }
    })
  }
}

/** An image that `docker commit` made of a container has our labels, too. Ours have neither a name nor a parent. */
const isForeign = ({ RepoTags, ParentId }: Docker.ImageInfo): boolean =>
  ParentId !== '' || (RepoTags ?? []).some(tag => tag !== '<none>:<none>')
