// The engine ends the container of a step when nobody listens to its build any more. This makes sure of it.
import { setTimeout as sleep } from 'node:timers/promises'
import type Docker from 'dockerode'
import { orNull, settled } from '../engine/engine.ts'

const PATIENCE_MS = 10_000
const EVERY_MS = 100

/** `mark` is the host name that the containers of this build have, and `since` the second in which it began. */
export async function clearContainers(engine: Docker, mark: string, since: number): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS
  for (;;) {
    const left = await marked(engine, mark, since)
    if (left.length === 0) return
    if (Date.now() > deadline)
      for (const id of left) await settled(engine.getContainer(id).remove({ force: true, v: true }), 404, 409)
    if (Date.now() > deadline + PATIENCE_MS) throw new Error(`the engine does not end containers ${left.join(', ')}`)
    await sleep(EVERY_MS)
  }
}

async function marked(engine: Docker, mark: string, since: number): Promise<string[]> {
  const found: string[] = []
  for (const { Id, Created } of await engine.listContainers({ all: true })) {
    // The clock of an engine far away may differ by a little.
    if (Created < since - 60) continue
    const shown = await orNull(engine.getContainer(Id).inspect())
    const hosts = (shown?.HostConfig.ExtraHosts ?? []) as string[]
    if (hosts.some(line => line.startsWith(`${mark}:`))) found.push(Id)
  }
  return found
}
