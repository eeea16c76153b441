// Images in the engine's own store. The id of an image is the digest of its configuration, in every engine: one that is there need not be sent.
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { lstat, readdir, readFile, readlink, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { addAbortSignal, Readable } from 'node:stream'
import { finished, pipeline } from 'node:stream/promises'
import type Docker from 'dockerode'
import { type Pack, pack } from 'tar-stream'
import { SANDBOX_ID } from '../../rootfs/image-users.ts'
import { orNull } from '../engine/engine.ts'

/** A layer as a file, with the digest of its tar uncompressed. */
export interface LayerFile {
  readonly path: string
  readonly diffId: string
}

const ARCH: Partial<Record<NodeJS.Architecture, string>> = { x64: 'amd64', arm64: 'arm64' }

/** Makes sure that the engine has an image of these layers, and gives its id. The labels become part of it. */
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
  if ((await orNull(engine.getImage(id).inspect())) !== null) return id
  await loadImage(engine, { layers, config, name: null }, signal)
  return id
}

export interface SentImage {
  readonly layers: readonly LayerFile[]
  readonly config: string
  /** SECURITY: null, or one that nobody else has: a name of the user's own images could be taken over. */
  readonly name: string | null
}

export async function loadImage(engine: Docker, image: SentImage, signal: AbortSignal): Promise<void> {
  const archive = pack()
  const sent = send(archive, image)
  const reply = await engine.loadImage(addAbortSignal(signal, Readable.from(archive)))
  await sent
  await said(reply)
}

async function send(archive: Pack, { layers, config, name }: SentImage): Promise<void> {
  const digest = createHash('sha256').update(config).digest('hex')
  archive.entry({ name: `${digest}.json` }, config)
  for (const { path, diffId } of layers) {
    const { size } = await stat(path)
    await pipeline(createReadStream(path), archive.entry({ name: nameOf(diffId), size }))
  }
  const manifest = [
    { Config: `${digest}.json`, RepoTags: name === null ? null : [name], Layers: layers.map(({ diffId }) => nameOf(diffId)) },
  ]
  archive.entry({ name: 'manifest.json' }, JSON.stringify(manifest))
  archive.finalize()
}

const nameOf = (diffId: string) => `${diffId.replace('sha256:', '')}/layer.tar`

/** An engine answers a load with lines of JSON, one of which may be an error. */
async function said(reply: NodeJS.ReadableStream): Promise<void> {
  let text = ''
  for await (const chunk of reply) text = (text + String(chunk)).slice(-65_536)
  const failure = text.match(/"error":"((?:[^"\\]|\\.)*)"/)?.[1]
  if (failure !== undefined) throw new Error(`the engine did not take the image: ${failure}`)
}

/** A folder as a layer: the same content gives the same digest, whoever owns it and whenever it was made. */
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

const OWNED = ['workspace', 'home/sandbox']

async function addFolder(archive: Pack, root: string, below: string): Promise<void> {
  for (const name of (await readdir(join(root, below))).sort()) {
    const path = join(below, name)
    const info = await lstat(join(root, path))
    const owner = OWNED.includes(path) ? SANDBOX_ID : 0
    const header = { name: path, mode: info.mode & 0o7777, uid: owner, gid: owner, mtime: new Date(0) }
    if (info.isSymbolicLink()) archive.entry({ ...header, type: 'symlink', linkname: await readlink(join(root, path)) })
    else if (info.isDirectory()) {
      archive.entry({ ...header, type: 'directory' })
      await addFolder(archive, root, path)
    } else if (info.isFile()) archive.entry(header, await readFile(join(root, path)))
  }
}
