// The files of `image build`, as a tar without what .dockerignore names.
import { readFile, stat } from 'node:fs/promises'
import { isAbsolute, join, relative, resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import dockerignore from '@balena/dockerignore'
import { SandglassError } from '@sandglass/contract/tables'
import { HERE } from '../../copy/endpoint.ts'
import { type PackOptions, pack } from '../../copy/pack.ts'

export type BuildContext = {
  /** Path in the tar, like `overlay`. */
  dockerfile: string
  overlay: string | undefined
  tar: AsyncIterable<Uint8Array>
}

/** Names for files from outside the build context; the daemon hides them from COPY. */
const DOCKERFILE = '.sandglass.dockerfile'
const OVERLAY = '.sandglass.overlay'

/** Packs the files below a folder that .dockerignore does not name, and a Dockerfile from anywhere; `-` reads it from stdin. */
export async function buildContext(
  folder: string,
  { file, overlay }: { file: string | undefined; overlay: string | undefined },
  onSkip: (what: string) => void,
): Promise<BuildContext> {
  await requireFolder(folder)
  const path = file ?? join(folder, 'Dockerfile')
  const text = file === '-' ? await buffer(process.stdin) : await contentOf(path)
  const rules = await rulesOf(folder, path)
  const more = overlay === undefined ? [] : [{ name: OVERLAY, content: await contentOf(overlay) }]
  const inside = file === '-' ? '' : below(folder, path)
  const isAmong = inside !== '' && rules.isPacked(inside)
  if (!isAmong) more.push({ name: DOCKERFILE, content: text })
  return {
    dockerfile: isAmong ? inside : DOCKERFILE,
    overlay: overlay === undefined ? undefined : OVERLAY,
    tar: pack(folder, onSkip, { ...rules, more }),
  }
}

type Rules = Required<Pick<PackOptions, 'isPacked' | 'entersAll'>>

/** The rules of DOCKERFILE.dockerignore if it exists, else of the folder's .dockerignore. */
async function rulesOf(folder: string, dockerfile: string): Promise<Rules> {
  const text = (await contentIfAny(`${dockerfile}.dockerignore`)) ?? (await contentIfAny(join(folder, '.dockerignore'))) ?? ''
  const lines = text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .map(line => line.trim())
    .filter(line => line !== '' && !line.startsWith('#'))
  const rules = dockerignore.default().add(lines)
  // A negated rule may include a file of an ignored folder.
  return { isPacked: path => !rules.ignores(path), entersAll: lines.some(line => line.startsWith('!')) }
}

/** The path relative to the folder; empty if it is not below it. */
function below(folder: string, path: string): string {
  const found = relative(resolve(folder), resolve(path))
  return found.startsWith('..') || isAbsolute(found) ? '' : found
}

async function requireFolder(path: string): Promise<void> {
  const stats = await stat(path).catch(error => {
    throw missing(path, error)
  })
  if (!stats.isDirectory()) throw new SandglassError('NOT_A_DIRECTORY', { path })
}

async function contentOf(path: string): Promise<Buffer> {
  return await readFile(path).catch(error => {
    if ((error as NodeJS.ErrnoException).code === 'EISDIR') throw new SandglassError('NOT_A_FILE', { path }, { cause: error })
    throw missing(path, error)
  })
}

async function contentIfAny(path: string): Promise<string | undefined> {
  return await readFile(path, 'utf8').catch(error => {
    if (['ENOENT', 'ENOTDIR', 'EISDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  })
}

function missing(path: string, error: unknown): unknown {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return error
  return new SandglassError('FILE_NOT_FOUND', { path, where: HERE }, { cause: error })
}
