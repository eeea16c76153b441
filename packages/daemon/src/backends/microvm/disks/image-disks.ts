// Disks of machines: images become squashfs disks, and each session has an ext4 disk. This file makes the disks of images once, and keeps them
// while a session or a later start may need them.
import { renameSync } from 'node:fs'
import { readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { KeyedMutex } from '../../../lib/keyed-mutex.ts'
import { namesIn, nullIfMissing } from '../../../lib/missing-file.ts'
import type { LayeredImage, MachineRoot, TrustedCa } from '../../backend.ts'
import { launcherBeside } from '../../launcher/program.ts'
import { overlayLayerPrefix } from '../../rootfs/overlay-layer.ts'
import { isOutdated, plainName, variantName } from '../../rootfs/trust/variants.ts'
import { UNUSED_MS } from '../cached-files.ts'
import type { MicrovmPaths } from '../paths.ts'
import type { Host } from '../probe.ts'
import { type HostDisks, prepareHostDisks } from './host-disk.ts'
import { imageFile, prepareLayerDisks } from './layer-disk.ts'
import { PACKAGE_DISK } from './package-disks.ts'
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

/** Key and prefix of the host's disks. */
const HOST = 'host'
const DISK = '.sqfs'
const HOSTS = /^(programs|host)-[0-9a-f]+(-ca-[0-9a-f]+)?\.sqfs$/

type Tools = Pick<Host, 'mksquashfs' | 'sqfstar'>

export class ImageDisks {
  readonly #paths: MicrovmPaths
  readonly #runnerPath: string
  readonly #space: SpareSpace
  readonly #used: () => Promise<ReadonlySet<string>>
  /** By image id or HOST, with the mark of the certificate authority. */
  readonly #making = new Map<string, Promise<ImageDisk>>()
  readonly #mutex = new KeyedMutex()
  readonly #now: () => number
  /** By the keys of the host's disks: set when the disks are complete, missing while they are being made. */
  readonly #hostFreshUntil = new Map<string, number>()

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
  async prepare(host: Tools, root: MachineRoot, signal: AbortSignal, report: (step: string) => void): Promise<ImageDisk> {
    const { image, trust } = root
    const key = variantName(image.kind === 'host' ? HOST : image.id, trust)
    if (this.#now() > (this.#hostFreshUntil.get(key) ?? Number.POSITIVE_INFINITY)) this.#making.delete(key)
    const making = this.#making.get(key) ?? this.#make(host, root, key, signal, report)
    this.#making.set(key, making)
    try {
      return await making
    } catch (error) {
      if (this.#making.get(key) === making) this.#making.delete(key)
      throw error
    }
  }

  /** Removes the disks of images that are not in `kept`, and those for another certificate authority, but those that a session uses. */
  async prune(kept: readonly LayeredImage[], trust: TrustedCa | undefined): Promise<void> {
    const ids = new Set([HOST, ...kept.map(({ id }) => id)])
    for (const key of this.#making.keys()) if (!ids.has(plainName(key)) || isOutdated(key, trust)) this.#making.delete(key)
    // A failure is reported to the caller of prepare() and leaves no disk.
    const current = await Promise.all([...this.#making.values()].map(async making => await making.catch(() => null)))
    const names = new Set([
      ...(await this.#used()),
      ...current.flatMap(disk => (disk === null ? [] : [disk.image, disk.overlay])),
    ])
    const prefixes = kept.flatMap(({ id }) => [overlayLayerPrefix(id), imageFile(id)])
    for (const name of await namesIn(this.#paths.disks)) {
      const isForAnother = isOutdated(name.replace(DISK, ''), trust)
      if (name === HOST_USED || names.has(name) || PACKAGE_DISK.test(name)) continue
      if (!isForAnother && prefixes.some(prefix => name.startsWith(prefix))) continue
      if (HOSTS.test(name) && !isForAnother) await this.#removeUnused(name)
      else await rm(join(this.#paths.disks, name), { recursive: true, force: true })
    }
  }

  async #removeUnused(name: string): Promise<void> {
    const path = join(this.#paths.disks, name)
    const marker = join(this.#paths.disks, HOST_USED)
    const used = await Promise.all([path, marker].map(async file => (await stat(file).catch(nullIfMissing))?.mtimeMs ?? 0))
    // Renamed in the same tick as the check for a running prepare(), so that a later prepare() finds no disk and makes it.
    const isMade = [...this.#making.keys()].some(key => plainName(key) === HOST)
    if (Date.now() - Math.max(...used) < UNUSED_MS || isMade) return
    renameSync(path, `${path}.old`)
    await rm(`${path}.old`, { force: true })
  }

  async #make(
    host: Tools,
    { image, trust }: MachineRoot,
    key: string,
    signal: AbortSignal,
    report: (step: string) => void,
  ): Promise<ImageDisk> {
    const tools = { ...host, launcherPath: launcherBeside(this.#runnerPath), space: this.#space }
    if (image.kind === 'layers') return await prepareLayerDisks(tools, this.#paths, image, trust, signal, report)
    this.#hostFreshUntil.delete(key)
    // One at a time: all of them need the disk of the host's programs.
    const disks = await this.#mutex.run(HOST, async () => {
      const made = await prepareHostDisks(tools, this.#paths, trust, signal, report)
      await this.#removeHosts(made)
      await writeFile(join(this.#paths.disks, HOST_USED), '')
      return made
    })
    this.#hostFreshUntil.set(key, this.#now() + HOST_FRESH_MS)
    return { ...disks, layers: 0, user: 'sandbox' }
  }

  /** Removes the disks of earlier states of the host, which are large. */
  async #removeHosts({ image, overlay }: HostDisks): Promise<void> {
    const stateOf = (name: string) => plainName(name.replace(DISK, ''))
    const used = new Set(await this.#used())
    const current = new Set([image, overlay].map(stateOf))
    // Those that were made with or without the certificate authority, perhaps of an earlier state, are checked again.
    for (const key of this.#hostFreshUntil.keys()) this.#making.delete(key)
    for (const name of await readdir(this.#paths.disks))
      if (HOSTS.test(name) && !used.has(name) && !current.has(stateOf(name)))
        await rm(join(this.#paths.disks, name), { force: true })
  }
}
