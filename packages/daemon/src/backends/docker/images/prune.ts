// Images that were put into the engine for sessions, and that no image of the store needs any more.
import type Docker from 'dockerode'
import { settled } from '../engine/engine.ts'
import { IMAGE_LABEL, OWNER_LABEL } from '../engine/names.ts'

/** Calls `gone` with the key of each that goes. */
export async function pruneOwn(
  engine: Docker,
  owner: string,
  keys: ReadonlySet<string>,
  gone: (key: string) => void,
): Promise<void> {
  for (const image of await engine.listImages({ filters: { label: [`${OWNER_LABEL}=${owner}`] } as never })) {
    const key = image.Labels?.[IMAGE_LABEL] ?? ''
    if (keys.has(key) || isAnothers(image)) continue
    gone(key)
    // A container may still have it, or an image that was made from it; the next time there may be none.
    await settled(engine.getImage(image.Id).remove(), 404, 409)
  }
}

/** What `docker commit` makes of a container has our labels, too. Ours have neither a name nor a parent. */
const isAnothers = ({ RepoTags, ParentId }: Docker.ImageInfo): boolean =>
  ParentId !== '' || (RepoTags ?? []).some(tag => tag !== '<none>:<none>')
