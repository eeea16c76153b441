// The runner, in a volume of the engine that every container mounts read-only: no image has to have it. One volume per runner, filled once.
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type Docker from 'dockerode'
import { pack } from 'tar-stream'
import { settled } from './engine.ts'
import { OWNER_LABEL } from './names.ts'

const FOLDER = '/.sandglass'
/** SECURITY: a new volume would take over what the image has at its place, for every session to see. */
const EMPTY = { NoCopy: true, Labels: {}, DriverConfig: { Name: '', Options: {} } }

/** `image` is any image of the engine: a container of it is made for the copy, and never started. */
export async function placeRunner(engine: Docker, runnerPath: string, image: string, owner: string): Promise<string> {
  const runner = await readFile(runnerPath)
  const name = `sandglass-runner-${createHash('sha256').update(runner).digest('hex').slice(0, 16)}`
  if (await isFilled(engine, name)) return name
  const container = await engine.createContainer({
    Image: image,
    Entrypoint: [`${FOLDER}/runner`],
    Labels: { [OWNER_LABEL]: owner },
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
  } finally {
    await settled(container.remove({ force: true }), 404, 409)
  }
  await engine.createVolume({ Name: `${name}-filled`, Labels: { [OWNER_LABEL]: owner } })
  return name
}

/** The engine cannot look into a volume without a container, so a second, empty volume says that the first is filled. */
async function isFilled(engine: Docker, name: string): Promise<boolean> {
  const { Volumes } = await engine.listVolumes({ filters: { name: [name] } })
  const names = new Set((Volumes ?? []).map(volume => volume.Name))
  return names.has(name) && names.has(`${name}-filled`)
}
