// For tests: small images, as layers, manifests and archives.
import { createCipheriv, createHash } from 'node:crypto'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { pack } from 'tar-stream'
import { ARCHITECTURE } from '../manifest.ts'

export interface Entry {
  readonly name: string
  readonly content?: string | Buffer
  readonly type?: 'file' | 'directory' | 'symlink' | 'link'
  readonly linkname?: string
  readonly mode?: number
  readonly uid?: number
}

export interface TestLayer {
  readonly tar: Buffer
  readonly diffId: string
  readonly blob: Buffer
  readonly digest: string
  readonly mediaType: string
}

export interface TestImage {
  readonly layers: readonly TestLayer[]
  readonly config: Buffer
  /** Digest of the configuration. */
  readonly id: string
  readonly manifest: Buffer
  readonly digest: string
}

export const sha256 = (bytes: Buffer | string) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`

export async function tarOf(entries: readonly Entry[]): Promise<Buffer> {
  const archive = pack()
  for (const { content = '', type = 'file', ...rest } of entries) {
    const header = {
      ...rest,
      type,
      mode: rest.mode ?? (type === 'directory' ? 0o755 : 0o644),
      gid: rest.uid ?? 0,
      mtime: new Date(1e12),
    }
    archive.entry(header, type === 'file' ? content : '')
  }
  archive.finalize()
  const pieces: Buffer[] = []
  for await (const piece of archive) pieces.push(piece as Buffer)
  return Buffer.concat(pieces)
}

const COMPRESSED = {
  none: { type: 'application/vnd.oci.image.layer.v1.tar', with: (tar: Buffer) => tar },
  gzip: { type: 'application/vnd.oci.image.layer.v1.tar+gzip', with: (tar: Buffer) => gzipSync(tar) },
  zstd: { type: 'application/vnd.oci.image.layer.v1.tar+zstd', with: (tar: Buffer) => zstdCompressSync(tar) },
  docker: { type: 'application/vnd.docker.image.rootfs.diff.tar.gzip', with: (tar: Buffer) => gzipSync(tar) },
} as const

export function layerFrom(tar: Buffer, compression: keyof typeof COMPRESSED = 'gzip'): TestLayer {
  const blob = COMPRESSED[compression].with(tar)
  return { tar, diffId: sha256(tar), blob, digest: sha256(blob), mediaType: COMPRESSED[compression].type }
}

export const layerOf = async (entries: readonly Entry[], compression?: keyof typeof COMPRESSED) =>
  layerFrom(await tarOf(entries), compression)

export interface ImageOptions {
  readonly env?: readonly string[]
  /** ONBUILD instructions. */
  readonly onbuild?: readonly string[]
  readonly architecture?: string
  readonly docker?: boolean
}

export function imageOf(
  layers: readonly TestLayer[],
  { env = [], onbuild = [], architecture = ARCHITECTURE, docker = false }: ImageOptions = {},
): TestImage {
  const config = json({
    architecture,
    os: 'linux',
    config: { Env: env, ...(onbuild.length > 0 ? { OnBuild: onbuild } : {}) },
    rootfs: { type: 'layers', diff_ids: layers.map(layer => layer.diffId) },
  })
  const [manifestType, configType] = docker
    ? ['application/vnd.docker.distribution.manifest.v2+json', 'application/vnd.docker.container.image.v1+json']
    : ['application/vnd.oci.image.manifest.v1+json', 'application/vnd.oci.image.config.v1+json']
  const manifest = json({
    schemaVersion: 2,
    mediaType: manifestType,
    config: { mediaType: configType, digest: sha256(config), size: config.length },
    layers: layers.map(({ mediaType, digest, blob }) => ({ mediaType, digest, size: blob.length })),
  })
  return { layers, config, id: sha256(config), manifest, digest: sha256(manifest) }
}

/** One layer with a text file and a file of incompressible bytes. */
export async function plainImage(text = 'hello', bytes = 0): Promise<TestImage> {
  const noise = createCipheriv('aes-128-ctr', Buffer.alloc(16), Buffer.alloc(16)).update(Buffer.alloc(bytes))
  return imageOf([
    await layerOf([
      { name: 'hello', content: text },
      { name: 'noise', content: noise },
    ]),
  ])
}

/** As docker save writes it: the table of contents comes last. */
export function savedArchive(images: readonly { image: TestImage; tags: readonly string[] }[]): Promise<Buffer> {
  const files = images.flatMap(({ image }) => [
    ...image.layers.map(({ blob, digest }) => ({ name: `${digest.slice(7)}/layer.tar`, content: blob })),
    { name: `${image.id.slice(7)}.json`, content: image.config },
  ])
  const manifest = images.map(({ image, tags }) => ({
    Config: `${image.id.slice(7)}.json`,
    RepoTags: tags,
    Layers: image.layers.map(({ digest }) => `${digest.slice(7)}/layer.tar`),
  }))
  return tarOf([...files, { name: 'manifest.json', content: json(manifest) }])
}

export function layoutArchive(image: TestImage, name?: string): Promise<Buffer> {
  const blobs = [image.config, image.manifest, ...image.layers.map(layer => layer.blob)]
  const annotations = name === undefined ? {} : { annotations: { 'org.opencontainers.image.ref.name': name } }
  const mediaType = 'application/vnd.oci.image.manifest.v1+json'
  const manifests = [{ mediaType, digest: image.digest, size: image.manifest.length, ...annotations }]
  return tarOf([
    { name: 'oci-layout', content: '{"imageLayoutVersion":"1.0.0"}' },
    { name: 'index.json', content: json({ schemaVersion: 2, manifests }) },
    ...blobs.map(blob => ({ name: `blobs/sha256/${sha256(blob).slice(7)}`, content: blob })),
  ])
}

export const json = (value: unknown) => Buffer.from(JSON.stringify(value))
