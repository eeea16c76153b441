// The containers of one session. There is one, unless somebody has meddled.
import type Docker from 'dockerode'
import { orNull } from '../engine/engine.ts'
import { containerName, OWNER_LABEL, SESSION_LABEL, volumeName } from '../engine/names.ts'

/**
 * By name, and by what a new name does not change: the labels, and the volume of the session, without which it is a container of somebody's
 * own, made from an image that `docker commit` made of ours.
 */
export async function containersOf(engine: Docker, owner: string, id: string): Promise<Docker.Container[]> {
  const label = [`${SESSION_LABEL}=${id}`, `${OWNER_LABEL}=${owner}`]
  const [named, labelled] = await Promise.all([
    orNull(engine.getContainer(containerName(id)).inspect()),
    engine.listContainers({ all: true, filters: { label, volume: [volumeName(id, 'workspace')] } }),
  ])
  const ids = new Set([...(named ? [named.Id] : []), ...labelled.map(({ Id }) => Id)])
  return [...ids].map(found => engine.getContainer(found))
}
