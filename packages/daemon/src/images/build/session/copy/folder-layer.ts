// WORKDIR: a layer with the folder, unless the image has it.
import { Readable } from 'node:stream'
import { pack } from 'tar-stream'
import type { LayeredImage } from '../../../../backends/backend.ts'
import type { LayerMaker } from '../../../../backends/image-builds.ts'
import { StepFailure } from '../step-failure.ts'
import { ImageTree } from './image-tree.ts'

const MODE = 0o755

export async function folderLayer(
  layers: LayerMaker,
  image: LayeredImage,
  path: string,
  signal: AbortSignal,
): Promise<Readable | null> {
  const tree = new ImageTree(paths => layers.find(image, paths, signal))
  await tree.load([path])
  const kind = tree.kind(path)
  const real = tree.realPath(path)
  if (kind === 'folder' || path === '/') return null
  if (kind !== '' || real === null) throw new StepFailure(`${path} is not a folder in the image`)
  const out = pack()
  const own = { path: real.slice(1), mode: MODE, uid: 0, gid: 0 }
  for (const { path: name, ...folder } of [...tree.parents(real, null), own])
    out.entry({ name: `${name}/`, type: 'directory', mtime: new Date(0), ...folder })
  out.finalize()
  return Readable.from(out)
}
