// Disks of packages: one squashfs disk per digest, made at the first start that needs it.
import { existsSync } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { namesIn, nullIfMissing } from '../../../lib/missing-file.ts'
import type { MachinePackage } from '../../backend.ts'
import { UNUSED_MS } from '../cached-files.ts'
import type { MicrovmPaths } from '../paths.ts'
import type { Host } from '../probe.ts'
import type { SpareSpace } from './spare-space.ts'
import { inMib, makeSquashfs } from './squashfs.ts'

export interface PackageDisk {
  readonly name: string
  /** File name in the folder of disks. */
  readonly disk: string
}

export const PACKAGE_DISK = /^package-[0-9a-f]{32}\.sqfs$/

export class PackageDisks {
  readonly #paths: MicrovmPaths
  readonly #space: SpareSpace
  readonly #used: () => Promise<ReadonlySet<string>>
  readonly #making = new Map<string, Promise<void>>()
  /** The folders of the packages that this daemon has made disks of, by the name of the disk. */
  readonly #folders = new Map<string, string>()

  /** `used` returns the names of disks that sessions use. */
  constructor(paths: MicrovmPaths, space: SpareSpace, used: () => Promise<ReadonlySet<string>>) {
    this.#paths = paths
    this.#space = space
    this.#used = used
  }

  /** Concurrent callers share the work. */
  async prepare(
    host: Pick<Host, 'mksquashfs'>,
    packages: readonly MachinePackage[],
    signal: AbortSignal,
    report: (step: string) => void,
  ): Promise<PackageDisk[]> {
    const disks: PackageDisk[] = []
    for (const wanted of packages) {
      const disk = `package-${wanted.digest.slice(0, 32)}.sqfs`
      this.#folders.set(disk, wanted.folder)
      const making = this.#making.get(disk) ?? this.#make(host, wanted, join(this.#paths.disks, disk), signal, report)
      this.#making.set(disk, making)
      try {
        await making
      } finally {
        if (this.#making.get(disk) === making) this.#making.delete(disk)
      }
      disks.push({ name: wanted.name, disk })
    }
    return disks
  }

  /** Removes the disks of packages that are gone, and those of earlier daemons that are old; not those that a session uses. */
  async prune(): Promise<void> {
    const used = await this.#used()
    for (const name of await namesIn(this.#paths.disks)) {
      if (!PACKAGE_DISK.test(name) || used.has(name) || this.#making.has(name)) continue
      const [path, folder] = [join(this.#paths.disks, name), this.#folders.get(name)]
      const { mtimeMs } = (await stat(path).catch(nullIfMissing)) ?? { mtimeMs: Date.now() }
      const isGone = folder === undefined ? Date.now() - mtimeMs > UNUSED_MS : !existsSync(folder)
      if (isGone) await rm(path, { force: true })
    }
  }

  async #make(
    host: Pick<Host, 'mksquashfs'>,
    { name, folder }: MachinePackage,
    target: string,
    signal: AbortSignal,
    report: (step: string) => void,
  ): Promise<void> {
    if (existsSync(target)) return
    report(`making a disk of ${name}`)
    const entries = (await readdir(folder)).map(entry => join(folder, entry))
    const tools = { ...host, space: this.#space }
    await makeSquashfs(tools, entries, target, [], signal, bytes => report(`making a disk of ${name}: ${inMib(bytes)} MiB`))
  }
}
