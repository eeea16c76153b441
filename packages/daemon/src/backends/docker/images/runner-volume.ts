// The runner in a volume of the engine that every container mounts read-only, so that images need not contain it. One volume per version of the
// runner, filled once.
import { createHash, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type Docker from 'dockerode'
import { pack } from 'tar-stream'
import { ignoreStatus, nullIfNotFound } from '../engine/engine.ts'
import { OWNER_LABEL } from '../engine/names.ts'

const FOLDER = '/.sandglass'
/** SECURITY: without NoCopy the engine fills an empty volume from the image, and every session would run the image's file as its runner. */
export const NO_COPY = { NoCopy: true, Labels: {}, DriverConfig: { Name: '', Options: {} } }

export class RunnerVolume {
  readonly #runnerPath: string
  readonly #owner: string
  #placed: Promise<string> | undefined

  constructor(runnerPath: string, owner: string) {
    this.#runnerPath = runnerPath
    this.#owner = owner
  }

  /** Returns the name of the volume. `image` is any image of the engine: a container of it is created for the copy and never started. */
  async place(engine: Docker, image: string): Promise<string> {
    this.#placed ??= this.#find(engine, image)
    const placed = this.#placed
    try {
      return await placed
    } catch (error) {
      this.#forget(placed)
      throw error
    }
  }

  /** Called before a container is created: if somebody removed the volume, the engine would create an empty one with its name. */
  async check(engine: Docker): Promise<void> {
    const placed = this.#placed
    const name = await placed?.catch(() => undefined) // the caller of place() gets the error
    if (placed === undefined || name === undefined) return
    const volume = await nullIfNotFound(engine.getVolume(name).inspect())
    if (volume === null || !isMadeByUs(volume)) this.#forget(placed)
  }

  #forget(placed: Promise<string>): void {
    if (this.#placed === placed) this.#placed = undefined
  }

  async #find(engine: Docker, image: string): Promise<string> {
    const runner = await readFile(this.#runnerPath)
    const prefix = `sandglass-runner-${createHash('sha256').update(runner).digest('hex').slice(0, 16)}-`
    return (await filled(engine, prefix)) ?? (await this.#fill(engine, image, runner, prefix))
  }

  /** The name is new each time: a volume that somebody else created under an earlier name may be in use. */
  async #fill(engine: Docker, image: string, runner: Buffer, prefix: string): Promise<string> {
    const name = prefix + randomBytes(4).toString('hex')
    const Labels = { [OWNER_LABEL]: this.#owner }
    await engine.createVolume({ Name: name, Labels })
    try {
      await copyInto(engine, { image, name, Labels }, runner)
    } catch (error) {
      await ignoreStatus(engine.getVolume(name).remove({ force: true }), 404, 409)
      throw error
    }
    return name
  }
}

type Place = { image: string; name: string; Labels: Record<string, string> }

async function copyInto(engine: Docker, { image, name, Labels }: Place, runner: Buffer): Promise<void> {
  const container = await engine.createContainer({
    Image: image,
    Entrypoint: [`${FOLDER}/runner`],
    Labels,
    HostConfig: {
      NetworkMode: 'none',
      Mounts: [{ Type: 'volume', Source: name, Target: FOLDER, ReadOnly: false, VolumeOptions: NO_COPY }],
    },
  })
  try {
    const archive = pack()
    archive.entry({ name: 'runner', mode: 0o755, uid: 0, gid: 0 }, runner)
    archive.finalize()
    await container.putArchive(Readable.from(archive), { path: FOLDER })
    await engine.createVolume({ Name: name + FILLED, Labels })
  } finally {
    await ignoreStatus(container.remove({ force: true }), 404, 409)
  }
}

/** The content of a volume cannot be checked without a container, so a second, empty volume marks the first as filled. */
const FILLED = '-filled'

async function filled(engine: Docker, prefix: string): Promise<string | undefined> {
  const { Volumes } = await engine.listVolumes({ filters: { name: [prefix] } })
  const names = new Set((Volumes ?? []).map(({ Name }) => Name))
  return (Volumes ?? []).find(volume => names.has(volume.Name + FILLED) && isMadeByUs(volume))?.Name
}

/** SECURITY: a volume that the engine created implicitly for a container has no labels, so it is not the one that was filled. */
const isMadeByUs = ({ Labels }: Docker.VolumeInspectInfo): boolean => Labels?.[OWNER_LABEL] !== undefined
