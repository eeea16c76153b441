// The runner, in a volume of the engine that every container mounts read-only: no image has to have it. One volume per runner, filled once.
import { createHash, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type Docker from 'dockerode'
import { pack } from 'tar-stream'
import { orNull, settled } from '../engine/engine.ts'
import { OWNER_LABEL } from '../engine/names.ts'

const FOLDER = '/.sandglass'
/** SECURITY: an empty volume would take over what the image has at its place, and every session would run that as its runner. */
export const EMPTY = { NoCopy: true, Labels: {}, DriverConfig: { Name: '', Options: {} } }

export class RunnerVolume {
  readonly #runnerPath: string
  readonly #owner: string
  #placed: Promise<string> | undefined

  constructor(runnerPath: string, owner: string) {
    this.#runnerPath = runnerPath
    this.#owner = owner
  }

  /** Its name. `image` is any image of the engine: a container of it is made for the copy, and never started. */
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

  /** Before a container is made: the volume may have been removed behind our back, and the engine would make an empty one of that name. */
  async check(engine: Docker): Promise<void> {
    const placed = this.#placed
    const name = await placed?.catch(() => undefined) // whoever places it hears of it
    if (placed === undefined || name === undefined) return
    const volume = await orNull(engine.getVolume(name).inspect())
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

  /** A name of its own each time: what somebody has put in place of the volume before may be in use. */
  async #fill(engine: Docker, image: string, runner: Buffer, prefix: string): Promise<string> {
    const name = prefix + randomBytes(4).toString('hex')
    const Labels = { [OWNER_LABEL]: this.#owner }
    await engine.createVolume({ Name: name, Labels })
    try {
      await copyInto(engine, { image, name, Labels }, runner)
    } catch (error) {
      await settled(engine.getVolume(name).remove({ force: true }), 404, 409)
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
      Mounts: [{ Type: 'volume', Source: name, Target: FOLDER, ReadOnly: false, VolumeOptions: EMPTY }],
    },
  })
  try {
    const archive = pack()
    archive.entry({ name: 'runner', mode: 0o755, uid: 0, gid: 0 }, runner)
    archive.finalize()
    await container.putArchive(Readable.from(archive), { path: FOLDER })
    await engine.createVolume({ Name: name + FILLED, Labels })
  } finally {
    await settled(container.remove({ force: true }), 404, 409)
  }
}

/** The engine cannot look into a volume without a container, so a second, empty volume says that the first is filled. */
const FILLED = '-filled'

async function filled(engine: Docker, prefix: string): Promise<string | undefined> {
  const { Volumes } = await engine.listVolumes({ filters: { name: [prefix] } })
  const names = new Set((Volumes ?? []).map(({ Name }) => Name))
  return (Volumes ?? []).find(volume => names.has(volume.Name + FILLED) && isMadeByUs(volume))?.Name
}

/** SECURITY: a volume that the engine made for a container has no labels: it is not the one that was filled, whatever its name. */
const isMadeByUs = ({ Labels }: Docker.VolumeInspectInfo): boolean => Labels?.[OWNER_LABEL] !== undefined
