// Finds files of an image in the tars of its layers, for backends that do not unpack layers on this host.
import { posix } from 'node:path'
import { buffer } from 'node:stream/consumers'
import type { Header } from 'tar-stream'
import { openLayer } from '../../layers/layer-tar.ts'
import { readEntries } from '../../layers/tar-entries.ts'
import type { LayeredImage } from '../backend.ts'
import type { FoundPaths } from './overlay-layer.ts'

interface Entry {
  readonly kind: 'file' | 'folder' | 'link' | 'other'
  readonly target: string
  readonly content: string
}

const MAX_BYTES = 1024 * 1024
const MAX_LINKS = 16
/** SECURITY: links that lead below themselves would never end. */
const MAX_PLACES = 2000

export async function findInLayers(image: LayeredImage, paths: readonly string[], signal: AbortSignal): Promise<FoundPaths> {
  // A link leads to further paths, so the layers are read again until there are no new ones.
  let wanted = new Set(paths.flatMap(withParents))
  for (let links = 0; ; links++) {
    const found = await scan(image, wanted, signal)
    const more = new Set([...wanted, ...[...found].flatMap(([path, entry]) => linkTargets(path, entry, wanted))])
    if (more.size === wanted.size || more.size > MAX_PLACES || links === MAX_LINKS)
      return Object.fromEntries(paths.map(path => [path, resolve(found, path)]))
    wanted = more
  }
}

async function scan(image: LayeredImage, wanted: ReadonlySet<string>, signal: AbortSignal): Promise<Map<string, Entry>> {
  const found = new Map<string, Entry>()
  for (const { diffId, blob, compression } of image.layers) {
    const here = new Map<string, Entry>()
    // Paths that this layer deletes, and folders whose content it deletes.
    const [deleted, emptied] = [new Set<string>(), new Set<string>()]
    // Everything that was found and its parents are in `wanted`, so no other path matters.
    const note = (places: Set<string>, path: string) => void (wanted.has(path) && places.add(path))
    const tar = openLayer(blob, { image: image.reference, diffId, compression })
    const source = { image: image.reference, issue: 'a layer cannot be read' }
    await readEntries(tar, source, signal, async (header, body) => {
      const path = posix.resolve('/', header.name)
      const { dir, base } = posix.parse(path)
      if (base === '.wh..wh..opq') note(emptied, dir)
      else if (base.startsWith('.wh.')) note(deleted, posix.join(dir, base.slice('.wh.'.length)))
      if (!wanted.has(path)) return
      const isRead = header.type === 'file' && (header.size ?? 0) <= MAX_BYTES
      here.set(path, entryOf(header, isRead ? (await buffer(body)).toString('base64') : ''))
    })
    for (const path of [...found.keys()]) {
      const above = withParents(posix.dirname(path))
      if ([path, ...above].some(each => deleted.has(each)) || above.some(each => emptied.has(each))) found.delete(path)
    }
    for (const [path, entry] of here) {
      if (entry.kind !== 'folder') for (const below of [...found.keys()]) if (below.startsWith(`${path}/`)) found.delete(below)
      found.set(path, entry)
    }
  }
  return found
}

function entryOf({ type, linkname }: Header, content: string): Entry {
  if (type === 'symlink') return { kind: 'link', target: linkname ?? '', content: '' }
  // A hard link refers to a file of the same layer, so it counts as a file.
  if (type === 'file' || type === 'contiguous-file' || type === 'link') return { kind: 'file', target: '', content }
  return { kind: type === 'directory' ? 'folder' : 'other', target: '', content: '' }
}

/** The path and all its parents, up to the root. */
function withParents(path: string): string[] {
  return path === '/' ? [path] : [path, ...withParents(posix.dirname(path))]
}

/** The paths that a link leads the wanted paths to, with their parents. */
function linkTargets(path: string, entry: Entry, wanted: ReadonlySet<string>): string[] {
  if (entry.kind !== 'link') return []
  const target = posix.resolve(posix.dirname(path), entry.target)
  const behind = [...wanted].filter(other => other === path || other.startsWith(`${path}/`))
  return behind.flatMap(other => withParents(target + other.slice(path.length)))
}

function resolve(found: ReadonlyMap<string, Entry>, path: string): FoundPaths[string] {
  let at = path
  for (let links = 0; links < MAX_LINKS; links++) {
    const link = withParents(at)
      .toReversed()
      .find(part => found.get(part)?.kind === 'link')
    if (link === undefined) {
      const entry = found.get(at)
      if (entry === undefined || entry.kind === 'link') return { kind: '' }
      return entry.kind === 'file' ? { kind: 'file', content: entry.content } : { kind: entry.kind }
    }
    at = posix.resolve(posix.dirname(link), found.get(link)?.target ?? '') + at.slice(link.length)
  }
  return { kind: '' }
}
