// Which files of the build context a COPY takes, and where each of them goes.
import { posix } from 'node:path'
import type { ContextEntry } from '../../build-context.ts'
import { matchesPath } from './wildcards.ts'

export interface PlacedFile {
  /** Name in the context. For a hard link, that of the file with the content. */
  readonly source: string
  readonly entry: ContextEntry
  /** Absolute path in the image, links not followed. */
  readonly target: string
}

type Entries = ReadonlyMap<string, ContextEntry>

const MAX_LINKS = 40
const FOLDER: ContextEntry = { type: 'directory', mode: 0o755, linkname: '', digest: '' }

/** A string is the reason why a source cannot be copied. `isFolder`: files go into `target` and not in its place. */
export function placeFiles(
  entries: Entries,
  sources: readonly string[],
  target: string,
  isFolder: boolean,
): PlacedFile[] | string {
  const placed: PlacedFile[] = []
  const folders = impliedFolders(entries)
  const entryAt = (name: string) => entries.get(name) ?? (folders.has(name) ? FOLDER : undefined)
  for (const source of sources) {
    const names = matching([...entries.keys(), ...folders], source)
    if (typeof names === 'string') return names
    if (names.length === 0) return `${source} is not in the build context`
    for (const name of names) {
      const real = followed(entryAt, name)
      if (real === null) return `${source} is a link that leads to nothing in the build context`
      const entry = entryAt(real) ?? FOLDER
      if (entry.type !== 'directory') {
        placed.push(place(entryAt, real, entry, isFolder ? posix.join(target, posix.basename(name)) : target))
        continue
      }
      const prefix = real === '' ? '' : `${real}/`
      for (const [inner, each] of below(entries, folders, prefix))
        placed.push(place(entryAt, inner, each, posix.join(target, inner.slice(prefix.length))))
    }
  }
  return placed
}

function place(
  entryAt: (name: string) => ContextEntry | undefined,
  name: string,
  entry: ContextEntry,
  target: string,
): PlacedFile {
  if (entry.type !== 'link') return { source: name, entry, target }
  // A hard link names a file that came before it.
  let source = entry.linkname
  for (let at = entryAt(source); at?.type === 'link'; at = entryAt(source)) source = at.linkname
  return { source, entry: { ...entry, type: 'file', digest: entryAt(source)?.digest ?? '' }, target }
}

function* below(entries: Entries, folders: ReadonlySet<string>, prefix: string): Generator<[string, ContextEntry]> {
  for (const name of folders) if (name !== '' && name.startsWith(prefix) && !entries.has(name)) yield [name, FOLDER]
  for (const [name, entry] of entries) if (name.startsWith(prefix)) yield [name, entry]
}

/** Folders that have no entry of their own, and the context itself. */
function impliedFolders(entries: Entries): Set<string> {
  const folders = new Set([''])
  for (const name of entries.keys())
    for (let folder = posix.dirname(name); folder !== '.'; folder = posix.dirname(folder)) folders.add(folder)
  return folders
}

/** The name that a link leads to; null if that is not in the context. */
function followed(entryAt: (name: string) => ContextEntry | undefined, name: string): string | null {
  let at = name
  for (let links = 0; links <= MAX_LINKS; links++) {
    const entry = entryAt(at)
    if (entry === undefined) return null
    if (entry.type !== 'symlink') return at
    if (entry.linkname.startsWith('/')) return null
    at = posix.join(posix.dirname(at), entry.linkname).replace(/^\.$|\/$/, '')
  }
  return null
}

/** Names that match a source with the wildcards * ? and [, none of which matches a slash. */
function matching(names: readonly string[], source: string): string[] | string {
  const parts = posix.normalize(source).replace(/^\/+/, '').replace(/\/$/, '')
  if (parts.split('/').includes('..')) return `${source} leads out of the build context`
  const plain = parts === '.' ? '' : parts
  if (!/[*?[]/.test(plain)) return names.includes(plain) ? [plain] : []
  const pattern = plain.split('/')
  return [...new Set(names.filter(name => matchesPath(name, pattern)))].sort()
}
