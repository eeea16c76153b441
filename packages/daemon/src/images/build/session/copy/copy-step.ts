// COPY and ADD: files of the build context, of an earlier stage or of another image become a layer. Nothing runs for them.
import { createHash } from 'node:crypto'
import { posix } from 'node:path'
import type { Readable } from 'node:stream'
import type { LayeredImage } from '../../../../backends/backend.ts'
import type { FileCopy, LayerLimits, LayerMaker } from '../../../../backends/image-builds.ts'
import { type BuildContext, entryLine } from '../../build-context.ts'
import { oneWord, wordsOf } from '../../dockerfile/words.ts'
import type { Source } from '../settings.ts'
import { type Stage, valuesOf } from '../stage.ts'
import { StepFailure } from '../step-failure.ts'
import type { CopyStep } from '../steps.ts'
import { ownerOf } from '../users.ts'
import { placeFiles } from './context-files.ts'
import { contextLayer, type Ownership } from './context-layer.ts'
import { ImageTree } from './image-tree.ts'

/** What a COPY copies, and where to, with all variables expanded. */
export interface Copying {
  readonly sources: readonly string[]
  readonly target: string
  /** The target has a slash at its end, or several sources need a folder. */
  readonly isFolder: boolean
  readonly chown: string | null
  readonly mode: number | null
}

const ARCHIVE = /\.(tar|tgz|tbz2?|txz|tzst|tar\.(gz|bz2|xz|zst|lz4|Z))$/i

export function readCopying({ escapeCharacter }: Source, stage: Stage, step: CopyStep): Copying {
  const values = valuesOf(stage)
  const expanded = (text: string) => oneWord(text, values, escapeCharacter)
  const words = typeof step.words === 'string' ? wordsOf(step.words, values, escapeCharacter) : step.words.map(expanded)
  const [target = '', ...sources] = words.toReversed()
  if (target === '' || sources.length === 0) throw new StepFailure('it needs at least one source and a destination')
  const hasSlash = target.endsWith('/') || target === '.' || target.endsWith('/.')
  if (sources.length > 1 && !hasSlash) throw new StepFailure('the destination of several sources must end with a slash')
  const archive = sources.find(source => step.isAdd && ARCHIVE.test(source))
  if (archive !== undefined)
    throw new StepFailure(`ADD of the archive ${archive} is not supported`, 'COPY it, and unpack it with RUN tar')
  return {
    sources: sources.toReversed(),
    target: posix.resolve('/', stage.settings.WorkingDir ?? '/', target),
    isFolder: hasSlash,
    chown: step.chown === null ? null : expanded(step.chown),
    mode: step.chmod === null ? null : modeOf(expanded(step.chmod)),
  }
}

function modeOf(text: string): number {
  if (!/^[0-7]{3,4}$/.test(text)) throw new StepFailure(`--chmod=${text} is not an octal mode`, 'write it like --chmod=755')
  return Number.parseInt(text, 8)
}

/** The part of a step's key that depends on the files. */
export function contextKey(context: BuildContext, { sources, target, isFolder }: Copying): string {
  const hash = createHash('sha256')
  // Whether the target is a folder in the image is known from the layers below.
  for (const { source, entry, target: at } of placed(context, sources, target, isFolder))
    hash.update(`${at} ${entryLine(source, entry)}`)
  return hash.digest('hex')
}

function placed(context: BuildContext, sources: readonly string[], target: string, isFolder: boolean) {
  const files = placeFiles(context.entries, sources, target, isFolder)
  if (typeof files === 'string') throw new StepFailure(files, '.dockerignore may exclude it')
  return files
}

export interface Below {
  readonly layers: LayerMaker
  /** The image that gets the layer. */
  readonly image: LayeredImage
  readonly signal: AbortSignal
}

const USERS = ['/etc/passwd', '/etc/group']

export async function copyFromContext(below: Below, context: BuildContext, copying: Copying): Promise<Readable> {
  const { tree, isFolder, ownership } = await destination(below, copying)
  const files = placed(context, copying.sources, copying.target, isFolder)
  const folders = files.map(({ entry, target }) => (entry.type === 'directory' ? target : posix.dirname(target)))
  await tree.load([...new Set(folders)])
  const layer = contextLayer(context.path, files, tree, ownership)
  if (typeof layer === 'string') throw new StepFailure(layer)
  return layer
}

export async function copyFromImage(below: Below, from: LayeredImage, copying: Copying, limits: LayerLimits): Promise<Readable> {
  const { tree, isFolder, ownership } = await destination(below, copying)
  const real = tree.realPath(copying.target)
  if (real === null) throw new StepFailure(`${copying.target} is below something that is not a folder`)
  const own = isFolder ? tree.folder(real) : null
  // A folder that is copied into one that exists gets the owner and the mode of the copy, as its content does.
  const parents = [...tree.parents(real, ownership.owner), ...(own && own.path !== '' ? [own] : [])]
  const copy: FileCopy = { sources: copying.sources, into: real.slice(1), intoFolder: isFolder, parents, ...ownership }
  return await below.layers.files(from, copy, limits, below.signal)
}

async function destination(
  { layers, image, signal }: Below,
  { target, chown, mode, isFolder }: Copying,
): Promise<{ tree: ImageTree; isFolder: boolean; ownership: Ownership }> {
  const tree = new ImageTree(paths => layers.find(image, paths, signal))
  await tree.load([target, ...(chown === null ? [] : USERS)])
  const owner = chown === null ? null : ownerOf({ passwd: tree.content('/etc/passwd'), group: tree.content('/etc/group') }, chown)
  if (typeof owner === 'string') throw new StepFailure(`--chown=${chown}: ${owner}`)
  return { tree, isFolder: isFolder || tree.kind(target) === 'folder' || target === '/', ownership: { owner, mode } }
}
