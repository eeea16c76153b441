// What a build starts from, in the engine under a name of this build alone.
import { readFile } from 'node:fs/promises'
import type Docker from 'dockerode'
import type { LayeredImage } from '../../backend.ts'
import { orNull, settled } from '../engine/engine.ts'
import { loadImage } from '../images/engine-image.ts'
import { refuseDepth, withLayerFiles } from '../images/root.ts'

/** An image has the same id here as in the store, unless the engine counts in another way: then it is sent again. */
export async function placeBase(
  engine: Docker,
  image: LayeredImage,
  name: string,
  imagesDir: string,
  signal: AbortSignal,
): Promise<void> {
  if ((await orNull(engine.getImage(image.id).inspect())) !== null) {
    const [repo = name, tag = 'latest'] = name.split(/:(?=[^:]*$)/)
    await engine.getImage(image.id).tag({ repo, tag })
    return
  }
  refuseDepth(image, 0)
  const config = await readFile(image.config, 'utf8')
  await withLayerFiles(image, imagesDir, signal, layers => loadImage(engine, { layers, config, name }, signal))
}

/** An image that nothing else has goes with its name. */
export async function removeNames(engine: Docker, names: readonly string[]): Promise<void> {
  for (const name of names) await settled(engine.getImage(name).remove(), 404, 409)
}

/** Those of a daemon that died in a build: below `prefix`, and of no build that runs. */
export async function removeStaleNames(engine: Docker, prefix: string, running: ReadonlySet<string>): Promise<void> {
  const tags = (await engine.listImages()).flatMap(({ RepoTags }) => RepoTags ?? [])
  const stale = tags.filter(tag => tag.startsWith(`${prefix}/`) && !running.has(/\/([^/:]+):[^:]*$/.exec(tag)?.[1] ?? ''))
  await removeNames(engine, stale)
}
