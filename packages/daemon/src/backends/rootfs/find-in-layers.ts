// Finds files of an image in the tars of its layers, for backends that do not unpack layers on this host.
import { posix } from 'node:path'
import { buffer } from 'node:stream/consumers'
import type { Header } from 'tar-stream'
import { openLayer } from '../../layers/layer-tar.ts'
import { readEntries } from '../../layers/tar-entries.ts'
import type { LayeredImage } from '../backend.ts'
import type { FoundPaths } from './found-paths.ts'

interface Entry {
  readonly kind: 'file' | 'folder' | 'link' | 'other'
  /** Of a link, and of a hard link, which counts as a file. */
  readonly target: string
  readonly content: string
}

interface Scan {
  readonly found: Map<string, Entry>
  /** The paths that those with a `*` stand for. */
  readonly expanded: ReadonlySet<string>
}

const MAX_BYTES = 1024 * 1024
/** SECURITY: of all files together; the image decides which files a path leads to. */
const MAX_TOTAL_BYTES = 8 * MAX_BYTES
const MAX_LINKS = 16
/** SECURITY: links that lead below themselves would never end. */
const MAX_PLACES = 2000
/** Paths that one path with a `*` stands for. */
const MAX_NAMES = 64
const ANY = '/*/'
const FOLDER: Entry = { kind: 'folder', target: '', content: '' }

/**
 * A path with the part `*` stands for one path per name in the folder before it. The result has those of them that exist, and any other path in any
 * case.
 */
export async function findInLayers(image: LayeredImage, paths: readonly string[], signal: AbortSignal): Promise<FoundPaths> {
  // A link leads to further paths, so the layers are read again until there are no new ones.
  let wanted = new Set(paths.flatMap(withParents))
  for (let links = 0; ; links++) {
    const { found, expanded } = await scan(image, wanted, signal)
    const targets = [...found].flatMap(([path, entry]) => linkTargets(path, entry, wanted))
    const more = new Set([...wanted, ...targets, ...[...expanded].flatMap(withParents)])
    if (more.size === wanted.size || more.size > MAX_PLACES || links === MAX_LINKS)
      return Object.fromEntries(paths.flatMap(path => results(found, expanded, path)))
    wanted = more
  }
}

async function scan(image: LayeredImage, wanted: ReadonlySet<string>, signal: AbortSignal): Promise<Scan> {
  const found = new Map<string, Entry>()
  const names = new Names(wanted)
  let left = MAX_TOTAL_BYTES
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
      else names.add(path, header.type === 'symlink')
      // A tar need not name the folders that its entries are in.
      for (const parent of withParents(dir)) if (wanted.has(parent) && !here.has(parent)) here.set(parent, FOLDER)
      if (!wanted.has(path)) return
      const size = header.size ?? 0
      const isRead = header.type === 'file' && size <= MAX_BYTES && size <= left
      if (isRead) left -= size
      here.set(path, entryOf(header, isRead ? (await buffer(body)).toString('base64') : '', here))
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
  return { found, expanded: names.expanded }
}

/** Collects the names that stand for a `*`. A name that an upper layer deletes is not found later. */
class Names {
  readonly #patterns: readonly (readonly [string, string])[]
  readonly #counts = new Map<string, number>()
  readonly expanded = new Set<string>()

  constructor(wanted: ReadonlySet<string>) {
    this.#patterns = [...wanted].flatMap(path => {
      const at = path.indexOf(ANY)
      return at < 0 ? [] : [[path.slice(0, at + 1), path.slice(at + ANY.length - 1)] as const]
    })
  }

  add(path: string, isLink: boolean): void {
    for (const [folder, rest] of this.#patterns) {
      if (!path.startsWith(folder)) continue
      const [name = ''] = path.slice(folder.length).split('/', 1)
      const [expanded, count] = [folder + name + rest, this.#counts.get(folder + rest) ?? 0]
      const mayExist = path === expanded || (isLink && expanded.startsWith(`${path}/`))
      if (!mayExist || this.expanded.has(expanded) || count === MAX_NAMES) continue
      this.expanded.add(expanded)
      this.#counts.set(folder + rest, count + 1)
    }
  }
}

/** `here` are the earlier entries of the same layer. */
function entryOf({ type, linkname }: Header, content: string, here: ReadonlyMap<string, Entry>): Entry {
  if (type === 'symlink') return { kind: 'link', target: linkname ?? '', content: '' }
  if (type === 'link') {
    const target = posix.resolve('/', linkname ?? '')
    return { kind: 'file', target, content: here.get(target)?.content ?? '' }
  }
  if (type === 'file' || type === 'contiguous-file') return { kind: 'file', target: '', content }
  return { kind: type === 'directory' ? 'folder' : 'other', target: '', content: '' }
}

/** The path and all its parents, up to the root. Those behind a `*` are left out. */
function withParents(path: string): string[] {
  if (path === '/') return [path]
  const at = path.indexOf(ANY)
  return [path, ...withParents(at < 0 ? posix.dirname(path) : path.slice(0, at))]
}

/** The paths that a link leads the wanted paths to, with their parents. */
function linkTargets(path: string, entry: Entry, wanted: ReadonlySet<string>): string[] {
  if (entry.kind === 'file') return entry.target === '' ? [] : withParents(entry.target)
  if (entry.kind !== 'link') return []
  const target = posix.resolve(posix.dirname(path), entry.target)
  const behind = [...wanted].filter(other => other === path || other.startsWith(`${path}/`))
  return behind.flatMap(other => withParents(target + other.slice(path.length)))
}

function results(found: ReadonlyMap<string, Entry>, expanded: ReadonlySet<string>, path: string): [string, FoundPaths[string]][] {
  const at = path.indexOf(ANY)
  if (at < 0) return [[path, resolve(found, path).result]]
  const [folder, rest] = [path.slice(0, at), path.slice(at + ANY.length - 1)]
  const real = resolve(found, folder).at
  const names = [...expanded].filter(each => each.startsWith(`${real}/`) && each.endsWith(rest))
  return names
    .map(each => each.slice(real.length, each.length - rest.length))
    .filter(name => !name.includes('/', 1))
    .map((name): [string, FoundPaths[string]] => [folder + name + rest, resolve(found, folder + name + rest).result])
    .filter(([, { kind }]) => kind !== '')
}

function resolve(found: ReadonlyMap<string, Entry>, path: string): { at: string; result: FoundPaths[string] } {
  let at = path
  for (let links = 0; links < MAX_LINKS; links++) {
    const link = withParents(at)
      .toReversed()
      .find(part => found.get(part)?.kind === 'link')
    if (link === undefined) return { at, result: resultOf(found.get(at), at) }
    at = posix.resolve(posix.dirname(link), found.get(link)?.target ?? '') + at.slice(link.length)
  }
  return { at: path, result: { kind: '' } }
}

function resultOf(entry: Entry | undefined, path: string): FoundPaths[string] {
  if (entry === undefined || entry.kind === 'link') return { kind: '' }
  return entry.kind === 'file' ? { kind: 'file', path, content: entry.content } : { kind: entry.kind, path }
}
