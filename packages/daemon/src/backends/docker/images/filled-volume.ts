// Volumes of the engine with files of ours that containers mount read-only, so that images need not contain them. Each is filled once.
import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import type Docker from 'dockerode'
import { type Pack, pack } from 'tar-stream'
import { ignoreStatus, nullIfNotFound } from '../engine/engine.ts'
import { OWNER_LABEL } from '../engine/names.ts'

/** A folder of every image of ours. */
const FOLDER = '/.sandglass'
/** SECURITY: without NoCopy the engine fills an empty volume from the image, and every session would run the image's file as its runner. */
export const NO_COPY = { NoCopy: true, Labels: {}, DriverConfig: { Name: '', Options: {} } }

export interface VolumeContent {
  /** Start of the volume's name. It identifies the content: other content has another prefix. */
  readonly prefix: string
  readonly labels: Readonly<Record<string, string>>
  /** Writes the entries; the caller finalizes the archive. */
  readonly pack: (archive: Pack) => Promise<void>
}

/** Returns the name of a volume with the content. `image` is any image of the engine: a container of it is created for the copy and never started. */
export async function filledVolume(engine: Docker, image: string, content: VolumeContent): Promise<string> {
  return (await findFilled(engine, content.prefix)) ?? (await fill(engine, image, content))
}

/** False if somebody removed the volume: the engine would create an empty one with its name for a container. */
export async function isStillFilled(engine: Docker, name: string): Promise<boolean> {
  const volume = await nullIfNotFound(engine.getVolume(name).inspect())
  return volume !== null && isMadeByUs(volume)
}

/** A volume that a container uses stays. */
export async function removeFilled(engine: Docker, name: string): Promise<void> {
  for (const volume of [name + FILLED, name]) await ignoreStatus(engine.getVolume(volume).remove(), 404, 409)
}

/** The content of a volume cannot be checked without a container, so a second, empty volume marks the first as filled. */
const FILLED = '-filled'

async function findFilled(engine: Docker, prefix: string): Promise<string | undefined> {
  const { Volumes } = await engine.listVolumes({ filters: { name: [prefix] } })
  const names = new Set((Volumes ?? []).map(({ Name }) => Name))
  return (Volumes ?? []).find(volume => names.has(volume.Name + FILLED) && isMadeByUs(volume))?.Name
}

/** SECURITY: a volume that the engine created implicitly for a container has no labels, so it is not the one that was filled. */
const isMadeByUs = ({ Labels }: Docker.VolumeInspectInfo): boolean => Labels?.[OWNER_LABEL] !== undefined

/** The name is new each time: a volume that somebody else created under an earlier name may be in use. */
async function fill(engine: Docker, image: string, content: VolumeContent): Promise<string> {
  const name = content.prefix + randomBytes(4).toString('hex')
  await engine.createVolume({ Name: name, Labels: { ...content.labels } })
  try {
    await copyInto(engine, image, name, content)
  } catch (error) {
    await ignoreStatus(engine.getVolume(name).remove({ force: true }), 404, 409)
    throw error
  }
  return name
}

async function copyInto(engine: Docker, image: string, name: string, content: VolumeContent): Promise<void> {
  const Labels = { ...content.labels }
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
    const sent = container.putArchive(Readable.from(archive), { path: FOLDER })
    const packed = content.pack(archive).then(() => archive.finalize())
    packed.catch(error => archive.destroy(error))
    await Promise.all([sent, packed])
    await engine.createVolume({ Name: name + FILLED, Labels })
  } finally {
    await ignoreStatus(container.remove({ force: true }), 404, 409)
  }
}
