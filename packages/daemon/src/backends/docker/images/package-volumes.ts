// Packages in volumes of the engine, one per digest: the engine may be on another machine, which has no folder of the daemon.
import { createReadStream, existsSync } from 'node:fs'
import { lstat, readdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type Docker from 'dockerode'
import type { Pack } from 'tar-stream'
import type { MachinePackage } from '../../backend.ts'
import { OWNER_LABEL } from '../engine/names.ts'
import { filledVolume, isStillFilled, removeFilled } from './filled-volume.ts'

/** The folder of the daemon that the volume was filled from. */
const FOLDER_LABEL = 'sandglass.package'

export class PackageVolumes {
  readonly #owner: string
  /** By digest. */
  readonly #placed = new Map<string, Promise<string>>()

  constructor(owner: string) {
    this.#owner = owner
  }

  /** Returns the names of the volumes, in the order of the packages. */
  async place(engine: Docker, image: string, packages: readonly MachinePackage[]): Promise<string[]> {
    return await Promise.all(packages.map(wanted => this.#place(engine, image, wanted)))
  }

  /** Called before a container is created. */
  async check(engine: Docker, packages: readonly MachinePackage[]): Promise<void> {
    for (const { digest } of packages) {
      const placed = this.#placed.get(digest)
      const name = await placed?.catch(() => undefined) // the caller of place() gets the error
      if (placed !== undefined && name !== undefined && !(await isStillFilled(engine, name))) this.#forget(digest, placed)
    }
  }

  /** Removes the volumes of packages that the daemon has no more. */
  async prune(engine: Docker): Promise<void> {
    const { Volumes } = await engine.listVolumes({ filters: { label: [FOLDER_LABEL, `${OWNER_LABEL}=${this.#owner}`] } })
    for (const { Name, Labels } of Volumes ?? []) if (!existsSync(Labels[FOLDER_LABEL] ?? '')) await removeFilled(engine, Name)
  }

  async #place(engine: Docker, image: string, { digest, folder }: MachinePackage): Promise<string> {
    const content = {
      prefix: `sandglass-package-${digest.slice(0, 32)}-`,
      labels: { [OWNER_LABEL]: this.#owner, [FOLDER_LABEL]: folder },
      pack: (archive: Pack) => addFolder(archive, folder, ''),
    }
    const placed = this.#placed.get(digest) ?? filledVolume(engine, image, content)
    this.#placed.set(digest, placed)
    try {
      return await placed
    } catch (error) {
      this.#forget(digest, placed)
      throw error
    }
  }

  #forget(digest: string, placed: Promise<string>): void {
    if (this.#placed.get(digest) === placed) this.#placed.delete(digest)
  }
}

/** Content is streamed: a program may have hundreds of megabytes. */
async function addFolder(archive: Pack, root: string, below: string): Promise<void> {
  for (const name of (await readdir(join(root, below))).sort()) {
    const path = join(below, name)
    const info = await lstat(join(root, path))
    const header = { name: path, mode: info.mode & 0o755, uid: 0, gid: 0 }
    if (info.isSymbolicLink()) archive.entry({ ...header, type: 'symlink', linkname: await readlink(join(root, path)) })
    else if (info.isDirectory()) {
      archive.entry({ ...header, type: 'directory' })
      await addFolder(archive, root, path)
    } else if (info.isFile()) await pipeline(createReadStream(join(root, path)), archive.entry({ ...header, size: info.size }))
  }
}
