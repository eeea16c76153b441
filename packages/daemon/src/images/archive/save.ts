// GET /v1/images/{ref}/archive: an image as an OCI layout in a tar, with the manifest.json of docker save. The same image has the same bytes.
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/contract'
import { type Pack, pack } from 'tar-stream'
import type { Compression } from '../../layers/layer-tar.ts'
import type { ImageContext } from '../context.ts'
import { ARCHITECTURE, CONFIG_TYPE, digestOf, FULL_NAME, invalid, LAYER_TYPE, MANIFEST_TYPE, REF_NAME } from '../manifest.ts'
import { idPrefix, parseReference } from '../reference.ts'
import { digestsOf, type LayerRecord, layersOf } from '../store/image-row.ts'
import { findStored } from '../store/stored-images.ts'

const SUFFIX: Readonly<Record<Compression, string>> = { none: '', gzip: '+gzip', zstd: '+zstd' }

/** `ref` becomes the name of the image in the archive, unless it is an id. The store keeps the blobs until the last byte is sent. */
export async function saveImage(context: ImageContext, ref: string): Promise<AsyncIterable<Buffer>> {
  const { store, images } = context
  const row = await findStored(store, ref)
  if (!row) throw new SandglassError('IMAGE_NOT_FOUND', { image: ref })
  const config = await images.blobs.read(row.id)
  if (!config) throw invalid(ref, 'its configuration is missing')
  const name = idPrefix(ref) === null || !row.id.includes(idPrefix(ref) ?? '') ? parseReference(ref) : null
  const layers = layersOf(row)
  const manifest = manifestOf(row.id, config.length, layers)
  const unpin = images.pins.pin(digestsOf(row))
  const out = pack()
  write(out, {
    texts: textsOf(manifest, name?.digest === null ? name.name : null, row.id, config, layers),
    layers: layers.map(({ digest }) => ({ name: blobName(digest), path: images.blobs.path(digest) })),
  })
    .catch(error => out.destroy(error as Error))
    .finally(unpin)
  return out as AsyncIterable<Buffer>
}

const blobName = (digest: string): string => `blobs/${digest.replace(':', '/')}`

function manifestOf(id: string, configBytes: number, layers: readonly LayerRecord[]): Buffer {
  return json({
    schemaVersion: 2,
    mediaType: MANIFEST_TYPE,
    config: { mediaType: CONFIG_TYPE, digest: id, size: configBytes },
    layers: layers.map(({ digest, size_bytes, compression }) => ({
      // The media type of a registry is not always right; the compression was detected.
      mediaType: `${LAYER_TYPE}${SUFFIX[compression]}`,
      digest,
      size: size_bytes,
    })),
  })
}

function textsOf(
  manifest: Buffer,
  name: string | null,
  id: string,
  config: Buffer,
  layers: readonly LayerRecord[],
): Record<string, Buffer> {
  const digest = digestOf(manifest)
  const tag = name?.split(':').at(-1) ?? ''
  const annotations = name === null ? {} : { annotations: { [FULL_NAME]: name, [REF_NAME]: tag } }
  const platform = { os: 'linux', architecture: ARCHITECTURE }
  return {
    'oci-layout': json({ imageLayoutVersion: '1.0.0' }),
    'index.json': json({
      schemaVersion: 2,
      manifests: [{ mediaType: MANIFEST_TYPE, digest, size: manifest.length, ...annotations, platform }],
    }),
    'manifest.json': json([
      { Config: blobName(id), RepoTags: name === null ? null : [name], Layers: layers.map(({ digest }) => blobName(digest)) },
    ]),
    [blobName(digest)]: manifest,
    [blobName(id)]: config,
  }
}

async function write(
  out: Pack,
  { texts, layers }: { texts: Readonly<Record<string, Buffer>>; layers: readonly { name: string; path: string }[] },
): Promise<void> {
  const attributes = { mode: 0o644, uid: 0, gid: 0, mtime: new Date(0) }
  for (const [name, content] of Object.entries(texts)) out.entry({ name, size: content.length, ...attributes }, content)
  // An image may have the same layer twice.
  const files = new Map(layers.map(({ name, path }) => [name, path]))
  for (const [name, path] of files) {
    const { size } = await stat(path)
    await pipeline(createReadStream(path, { highWaterMark: 1024 * 1024 }), out.entry({ name, size, ...attributes }))
  }
  out.finalize()
}

const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))
