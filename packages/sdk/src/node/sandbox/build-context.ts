// The files of an image build, as a tar without what .dockerignore names.
import { constants } from 'node:fs'
import { lstat, open, readdir, readFile, readlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type IgnoreRules, ignoreRules } from './docker-ignore.ts'
import { END, headerOf, MAX_ENTRY_BYTES, padding } from './tar/write-tar.ts'

/** Name for a Dockerfile from anywhere; the daemon hides it from COPY. */
const DOCKERFILE = '.sandglass.dockerfile'

export type BuildContext = { dockerfile: string; tar: AsyncIterable<Uint8Array> }

/** Packs the files below a folder, the one of the Dockerfile when absent, and the Dockerfile. Sockets, pipes and devices are left out. */
export async function buildContext(dockerfile: string, folder = dirname(dockerfile)): Promise<BuildContext> {
  const content = await readFile(dockerfile)
  await readdir(folder)
  // As docker does: the rules beside the Dockerfile go before those of the folder.
  const rules = (await textIfAny(`${dockerfile}.dockerignore`)) ?? (await textIfAny(join(folder, '.dockerignore'))) ?? ''
  return { dockerfile: DOCKERFILE, tar: pack({ folder, rules: ignoreRules(rules) }, content) }
}

type Packing = { folder: string; rules: IgnoreRules }

async function* pack(packing: Packing, dockerfile: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield* packFolder(packing, '')
  yield* headerOf({ name: DOCKERFILE, type: 'file', mode: 0o644, size: dockerfile.length })
  yield dockerfile
  yield padding(dockerfile.length)
  yield END
}

async function* packFolder(packing: Packing, prefix: string): AsyncGenerator<Uint8Array, void, undefined> {
  const { folder, rules } = packing
  for (const base of (await readdir(join(folder, prefix))).sort()) {
    const name = prefix + base
    const path = join(folder, name)
    const isIgnored = rules.ignores(name)
    if (isIgnored && !rules.hasExceptions) continue
    const stats = await lstat(path)
    if (stats.isDirectory()) {
      if (!isIgnored) yield* headerOf({ name: `${name}/`, type: 'directory', mode: stats.mode })
      yield* packFolder(packing, `${name}/`)
    } else if (stats.isSymbolicLink() && !isIgnored) {
      yield* headerOf({ name, type: 'symlink', mode: 0o777, target: await readlink(path) })
    } else if (stats.isFile() && !isIgnored) {
      yield* packFile(path, name)
    }
  }
}

/** Exactly the bytes that the header says: a file that grows is cut, and one that shrinks is an error. */
async function* packFile(path: string, name: string): AsyncGenerator<Uint8Array, void, undefined> {
  // O_NONBLOCK: a pipe may have replaced the file meanwhile.
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const { size, mode } = await file.stat()
    if (size > MAX_ENTRY_BYTES) throw new Error(`${path} is larger than an archive can hold`)
    yield* headerOf({ name, type: 'file', mode, size })
    for (let at = 0; at < size; ) {
      const piece = Buffer.allocUnsafe(Math.min(PIECE, size - at))
      const { bytesRead } = await file.read(piece, 0, piece.length, at)
      if (bytesRead === 0) throw new Error(`${path} became shorter while it was read`)
      at += bytesRead
      yield piece.subarray(0, bytesRead)
    }
    yield padding(size)
  } finally {
    await file.close()
  }
}

async function textIfAny(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch(error => {
    if (['ENOENT', 'ENOTDIR', 'EISDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  })
}

const PIECE = 256 * 1024
