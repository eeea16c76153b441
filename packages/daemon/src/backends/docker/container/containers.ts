// Finds and ends the containers of one session. There is one, unless somebody has changed it behind the daemon's back.
import type Docker from 'dockerode'
import { ignoreStatus, nullIfNotFound } from '../engine/engine.ts'
import { containerName, OWNER_LABEL, SESSION_LABEL, volumeName } from '../engine/names.ts'

export type ContainerInfo = Docker.ContainerInspectInfo

/**
 * Found by name, and by labels together with the session's volume, which stay when somebody renames the container. A container with the labels
 * but without the volume is somebody's own: it was made from an image that `docker commit` made of ours.
 */
export async function containersOf(engine: Docker, owner: string, id: string): Promise<Docker.Container[]> {
  const label = [`${SESSION_LABEL}=${id}`, `${OWNER_LABEL}=${owner}`]
  const [named, labelled] = await Promise.all([
    nullIfNotFound(engine.getContainer(containerName(id)).inspect()),
    engine.listContainers({ all: true, filters: { label, volume: [volumeName(id, 'workspace')] } }),
  ])
  const ids = new Set([...(named ? [named.Id] : []), ...labelled.map(({ Id }) => Id)])
  return [...ids].map(found => engine.getContainer(found))
}

/** Ends every process of the container and keeps its files. Idempotent. */
export async function killContainer(container: Docker.Container): Promise<void> {
  await unpause(container)
  await ignoreStatus(container.kill(), 404, 409)
  await ignoreStatus(container.wait({ condition: 'not-running' }), 404)
}

/** Idempotent. */
export async function removeContainer(container: Docker.Container): Promise<void> {
  await unpause(container)
  await ignoreStatus(container.remove({ force: true, v: false }), 404, 409)
}

/** A paused container with its own kernel does not receive signals: the engine would wait ten seconds for it, and may then fail. */
async function unpause(container: Docker.Container): Promise<void> {
  const info = await nullIfNotFound(container.inspect())
  if (info?.State.Paused && info.HostConfig.Runtime !== 'runc') await ignoreStatus(container.unpause(), 404, 409, 500)
}
