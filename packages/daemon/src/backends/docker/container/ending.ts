// The end of a container, whatever became of it before.
import type Docker from 'dockerode'
import { orNull, settled } from '../engine/engine.ts'

/** Ends what runs in it. What it has written stays. */
export async function kill(container: Docker.Container): Promise<void> {
  await thaw(container)
  await settled(container.kill(), 404, 409)
  await settled(container.wait({ condition: 'not-running' }), 404)
}

export async function remove(container: Docker.Container): Promise<void> {
  await thaw(container)
  await settled(container.remove({ force: true, v: false }), 404, 409)
}

/** A paused one with a kernel of its own does not hear the signal: the engine would wait ten seconds for it, and may then fail. */
async function thaw(container: Docker.Container): Promise<void> {
  const shown = await orNull(container.inspect())
  if (shown?.State.Paused && shown.HostConfig.Runtime !== 'runc') await settled(container.unpause(), 404, 409, 500)
}
