// Writes files of the build context as the tar of a layer.
import { createReadStream } from 'node:fs'
import { posix } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { extract, type Header, type Pack, pack } from 'tar-stream'
import type { PlacedFile } from './context-files.ts'
import type { ImageTree, LayerFolder } from './image-tree.ts'

export interface Ownership {
  /** Null: root. */
  readonly owner: { readonly uid: number; readonly gid: number } | null
  /** Null: as in the context. */
  readonly mode: number | null
}

/** A placed file with its real path in the image. */
interface LayerFile extends PlacedFile {
  readonly path: string
}

/**
 * `tree` has been loaded with the folders of the targets. A string is the reason why a file cannot be placed. `context` is the file with the tar of the context;
 * its names were checked when it was received.
 */
export function contextLayer(
  context: string,
  placed: readonly PlacedFile[],
  tree: ImageTree,
  ownership: Ownership,
): Readable | string {
  const files: LayerFile[] = []
  for (const file of placed) {
    const real = tree.realPath(file.target)
    if (real === null) return `${file.target} is below something that is not a folder`
    if (file.entry.type === 'directory' && !['', 'folder'].includes(tree.kind(file.target)))
      return `${file.target} is not a folder in the image`
    files.push({ ...file, path: real.slice(1) })
  }
  const out = pack()
  write(out, context, files, tree, ownership).catch(error => out.destroy(error as Error))
  return Readable.from(out)
}

async function write(
  out: Pack,
  context: string,
  files: readonly LayerFile[],
  tree: ImageTree,
  { owner, mode }: Ownership,
): Promise<void> {
  const ids = owner ?? { uid: 0, gid: 0 }
  const folders = new Map<string, LayerFolder>()
  for (const { path, entry } of files) {
    for (const folder of tree.parents(`/${path}`, owner)) if (!folders.has(folder.path)) folders.set(folder.path, folder)
    if (entry.type !== 'directory' || path === '') continue
    folders.set(path, tree.folder(`/${path}`) ?? { path, mode: mode ?? entry.mode, ...ids })
  }
  const time = new Date(0)
  for (const folder of [...folders.values()].sort((a, b) => (a.path < b.path ? -1 : 1)))
    out.entry({ name: `${folder.path}/`, type: 'directory', mode: folder.mode, uid: folder.uid, gid: folder.gid, mtime: time })
  // The last of several files for one path counts.
  const last = new Map(files.filter(({ entry }) => entry.type !== 'directory').map(file => [file.path, file]))
  const contents = new Map<string, LayerFile[]>()
  for (const file of last.values()) {
    if (file.entry.type === 'symlink')
      out.entry({ name: file.path, type: 'symlink', linkname: file.entry.linkname, mode: 0o777, ...ids, mtime: time })
    else contents.set(file.source, [...(contents.get(file.source) ?? []), file])
  }
  await copyContents(out, context, contents, file => ({ mode: mode ?? file.entry.mode, ...ids }))
  out.finalize()
}

/** A file that goes to several paths is written once, with hard links to it. */
async function copyContents(
  out: Pack,
  context: string,
  contents: ReadonlyMap<string, readonly LayerFile[]>,
  attributes: (file: LayerFile) => Pick<Header, 'mode' | 'uid' | 'gid'>,
): Promise<void> {
  if (contents.size === 0) return
  const archive = extract()
  const reading = pipeline(createReadStream(context), archive)
  reading.catch(() => undefined) // thrown below
  for await (const entry of archive) {
    const [first, ...more] = contents.get(posix.normalize(entry.header.name)) ?? []
    if (!first || entry.header.type !== 'file') {
      entry.resume()
      continue
    }
    const { size = 0, mtime = new Date(0) } = entry.header
    await pipeline(entry, out.entry({ name: first.path, type: 'file', size, mtime, ...attributes(first) }))
    for (const file of more) out.entry({ name: file.path, type: 'link', linkname: first.path, mtime, ...attributes(file) })
  }
  await reading
}
