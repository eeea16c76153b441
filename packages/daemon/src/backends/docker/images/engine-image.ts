// Sends images to the engine's own store. In every engine the id of an image is the digest of its configuration, so an image that is there already
// need not be sent.
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { lstat, readdir, readFile, readlink, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { addAbortSignal, Readable } from 'node:stream'
import { finished, pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import { type Pack, pack } from 'tar-stream'
import { openLayer } from '../../../layers/layer-tar.ts'
import type { ImageLayer, LayeredImage } from '../../backend.ts'
import { SANDBOX_ID } from '../../rootfs/image-users.ts'
import { engineMessage, nullIfNotFound } from '../engine/engine.ts'
import { inScratch } from './scratch.ts'

/** A layer as a file, with the digest of its uncompressed tar. */
export interface LayerFile {
  readonly path: string
  readonly diffId: string
}

const ARCH: Partial<Record<NodeJS.Architecture, string>> = { x64: 'amd64', arm64: 'arm64' }
/** Limit of every engine, whatever its storage driver. */
const MAX_LAYERS = 125

/** Makes sure that the engine has an image of these layers and returns its id. The labels become part of the image. */
export async function ensureImage(
  engine: Docker,
  layers: readonly LayerFile[],
  labels: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<string> {
  const config = JSON.stringify({
    architecture: ARCH[process.arch] ?? process.arch,
    os: 'linux',
    config: { Labels: labels },
    rootfs: { type: 'layers', diff_ids: layers.map(layer => layer.diffId) },
  })
  const digest = createHash('sha256').update(config).digest('hex')
  const id = `sha256:${digest}`
  if ((await nullIfNotFound(engine.getImage(id).inspect())) !== null) return id
  await loadImage(engine, { layers, config, name: null }, signal)
  return id
}

export interface SentImage {
  readonly layers: readonly LayerFile[]
  readonly config: string
  /** SECURITY: null, or a name that nobody else uses: otherwise it could replace an image of the user. */
  readonly name: string | null
}

export async function loadImage(engine: Docker, image: SentImage, signal: AbortSignal): Promise<void> {
  const archive = pack()
  const sent = send(archive, image)
  const reply = await engine.loadImage(addAbortSignal(signal, Readable.from(archive)))
  await sent
  await checkReply(reply)
}

async function send(archive: Pack, { layers, config, name }: SentImage): Promise<void> {
  const digest = createHash('sha256').update(config).digest('hex')
  archive.entry({ name: `${digest}.json` }, config)
  for (const { path, diffId } of layers) {
    const { size } = await stat(path)
    await pipeline(createReadStream(path), archive.entry({ name: entryName(diffId), size }))
  }
  const manifest = [
    {
      Config: `${digest}.json`,
      RepoTags: name === null ? null : [name],
      Layers: layers.map(({ diffId }) => entryName(diffId)),
    },
  ]
  archive.entry({ name: 'manifest.json' }, JSON.stringify(manifest))
  archive.finalize()
}

const entryName = (diffId: string) => `${diffId.replace('sha256:', '')}/layer.tar`

/** An engine answers a load with lines of JSON, one of which may be an error. */
async function checkReply(reply: NodeJS.ReadableStream): Promise<void> {
  let text = ''
  for await (const chunk of reply) text = (text + String(chunk)).slice(-65_536)
  const failure = text.match(/"error":"((?:[^"\\]|\\.)*)"/)?.[1]
  if (failure !== undefined) throw new Error(`the engine did not take the image: ${failure}`)
}

/** Throws IMAGE_TOO_LARGE for an image with too many layers if `more` of them are added on top. */
export function checkDepth({ layers, reference }: LayeredImage, more: number): void {
  if (layers.length + more <= MAX_LAYERS) return
  const next = 'no Docker engine takes more: use --backend oci or --backend microvm'
  throw new SandglassError('IMAGE_TOO_LARGE', { image: reference, what: 'layers', max: MAX_LAYERS - more, next })
}

/** Calls `send` with the layers as files that the engine can read. The uncompressed ones are removed afterwards. */
export async function withLayerFiles<T>(
  image: LayeredImage,
  imagesDir: string,
  signal: AbortSignal,
  send: (layers: LayerFile[], scratch: string) => Promise<T>,
): Promise<T> {
  const sendUncompressed = (compressions: readonly ImageLayer['compression'][]) =>
    inScratch(imagesDir, async scratch => {
      const files = image.layers.map((layer, i) =>
        compressions.includes(layer.compression)
          ? uncompressed(image, layer, join(scratch, `${i}.tar`), signal)
          : { path: layer.blob, diffId: layer.diffId },
      )
      return await send(await Promise.all(files), scratch)
    })
  try {
    // Older engines do not support zstd.
    return await sendUncompressed(['zstd'])
  } catch (error) {
    // Engines refuse padding behind the end of a gzip stream, which other readers accept.
    if (!engineMessage(error).includes('gzip')) throw error
    return await sendUncompressed(['zstd', 'gzip'])
  }
}

async function uncompressed(
  { reference }: LayeredImage,
  { diffId, blob, compression }: ImageLayer,
  path: string,
  signal: AbortSignal,
): Promise<LayerFile> {
  await pipeline(openLayer(blob, { image: reference, diffId, compression }), createWriteStream(path), { signal })
  return { path, diffId }
}

/** A folder as a layer. The digest depends only on the content, not on owners and times. */
export async function folderLayer(folder: string, scratch: string): Promise<LayerFile> {
  const path = join(scratch, 'folder.tar')
  const archive = pack()
  const file = createWriteStream(path)
  archive.pipe(file)
  await addFolder(archive, folder, '')
  archive.finalize()
  await finished(file)
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return { path, diffId: `sha256:${hash.digest('hex')}` }
}

const OWNED_BY_USER = ['workspace', 'home/sandbox']

async function addFolder(archive: Pack, root: string, below: string): Promise<void> {
  for (const name of (await readdir(join(root, below))).sort()) {
    const path = join(below, name)
    const info = await lstat(join(root, path))
    const owner = OWNED_BY_USER.includes(path) ? SANDBOX_ID : 0
    const header = { name: path, mode: info.mode & 0o7777, uid: owner, gid: owner, mtime: new Date(0) }
    if (info.isSymbolicLink()) archive.entry({ ...header, type: 'symlink', linkname: await readlink(join(root, path)) })
    else if (info.isDirectory()) {
      archive.entry({ ...header, type: 'directory' })
      await addFolder(archive, root, path)
    } else if (info.isFile()) archive.entry(header, await readFile(join(root, path)))
  }
}
