// What is in an archive: docker save has manifest.json, an OCI layout has index.json, and newer docker save has both.
import { LIMITS, SandglassError } from '@sandglass/contract'
import { z } from 'zod'
import { type Descriptor, digestOf, invalid, type Manifest, parseConfig, parseManifest, pickPlatform } from '../manifest.ts'
import { parseReference } from '../reference.ts'
import { distinctImages } from './distinct-images.ts'
import type { Spool, SpooledFile } from './spool.ts'

export interface ArchivedImage {
  /** Digest of its configuration. */
  readonly id: string
  /** SECURITY: read when it is needed. All of those of an archive together may be larger than the memory. */
  readonly config: () => Promise<Buffer>
  readonly architecture: string
  readonly manifestDigest: string
  readonly references: readonly string[]
  readonly layers: readonly ArchivedLayer[]
}

export interface ArchivedLayer {
  readonly file: SpooledFile
  readonly diffId: string
  readonly mediaType: string
}

const Saved = z.array(z.object({ Config: z.string(), RepoTags: z.array(z.string()).nullish(), Layers: z.array(z.string()) }))
const REF_NAME = 'org.opencontainers.image.ref.name'
const FULL_NAME = 'io.containerd.image.name'
const PLAIN_LAYER = 'application/vnd.oci.image.layer.v1.tar'

/** Under the names that they have in there, which may be none. */
export async function archivedImages(spool: Spool, image: string): Promise<ArchivedImage[]> {
  const saved = await spool.text(image, 'manifest.json')
  const index = await spool.text(image, 'index.json')
  if (!saved && !index) throw invalid(image, 'its archive has neither manifest.json (docker save) nor index.json (an OCI layout)')
  return saved ? await savedImages(spool, image, saved) : await layoutImages(spool, image, index ?? Buffer.alloc(0))
}

/** `reference` names the one image of an archive, whatever it is called in there. */
export function named(found: readonly ArchivedImage[], reference: string | undefined): readonly ArchivedImage[] {
  if (reference === undefined) {
    if (found.some(({ references }) => references.length === 0))
      throw new SandglassError('INVALID_REQUEST', {
        issue: 'reference is missing: the archive has an image without a name',
        next: 'give it a name like app:1.0',
      })
    return found
  }
  const [only, ...more] = found
  if (!only || more.length > 0)
    throw new SandglassError('INVALID_REQUEST', { issue: `reference names one image, and the archive has ${found.length}` })
  return [{ ...only, references: [parseReference(reference).name] }]
}

async function savedImages(spool: Spool, image: string, text: Buffer): Promise<ArchivedImage[]> {
  const entries = Saved.safeParse(parsed(image, text))
  if (!entries.success) throw invalid(image, 'its manifest.json is not one of docker save')
  const distinct = distinctImages(
    image,
    entries.data.map(({ RepoTags, ...entry }) => ({
      ...entry,
      id: required(spool, image, entry.Config).digest,
      references: RepoTags ?? [],
    })),
  )
  const images: ArchivedImage[] = []
  for (const { id, references, Config, Layers } of distinct) {
    if (Layers.length > LIMITS.image_layers.max)
      throw new SandglassError('IMAGE_TOO_LARGE', { image, what: 'layers', max: LIMITS.image_layers.max })
    const config = () => textOf(spool, image, Config)
    const bytes = await config()
    const { architecture, rootfs } = parseConfig(image, bytes, Layers.length)
    const layers = Layers.map((name, i) => ({
      file: required(spool, image, name),
      diffId: rootfs.diff_ids[i] ?? '',
      mediaType: PLAIN_LAYER,
    }))
    const digest = manifestDigest({ digest: id, size: bytes.length }, layers)
    images.push({ id, config, architecture, manifestDigest: digest, references: references.map(fullName), layers })
  }
  return images
}

async function layoutImages(spool: Spool, image: string, text: Buffer): Promise<ArchivedImage[]> {
  const top = parseManifest(image, text)
  if (!('index' in top)) throw invalid(image, 'its index.json is no index')
  const groups = top.index.filter(({ annotations, platform }) => annotations?.[REF_NAME] !== undefined || platform === undefined)
  const chosen = groups.length > 0 ? groups : [pickPlatform(image, top.index)]
  const distinct = distinctImages(
    image,
    chosen.map(descriptor => ({ id: descriptor.digest, references: namesIn(descriptor) })),
  )
  const images: ArchivedImage[] = []
  for (const { id, references } of distinct) images.push({ ...(await layoutImage(spool, image, id, 0)), references })
  // Two manifests may have one configuration.
  return distinctImages(image, images)
}

async function layoutImage(spool: Spool, image: string, digest: string, depth: number): Promise<ArchivedImage> {
  const found = parseManifest(image, await blob(spool, image, digest))
  if ('index' in found) {
    if (depth > 3) throw invalid(image, 'its index leads to an index too often')
    return await layoutImage(spool, image, pickPlatform(image, found.index).digest, depth + 1)
  }
  const id = found.manifest.config.digest
  const config = () => blob(spool, image, id)
  const { architecture, rootfs } = parseConfig(image, await config(), found.manifest.layers.length)
  const layers = found.manifest.layers.map(({ digest, mediaType }, i) => ({
    file: layoutFile(spool, image, digest),
    diffId: rootfs.diff_ids[i] ?? '',
    mediaType: mediaType ?? PLAIN_LAYER,
  }))
  return { id, config, architecture, manifestDigest: digest, references: [], layers }
}

/** A bare tag, as some tools write there, is no name. */
function namesIn({ annotations }: Descriptor): string[] {
  const name = annotations?.[FULL_NAME] ?? annotations?.[REF_NAME]
  return name === undefined || !/[:/@]/.test(name) ? [] : [fullName(name)]
}

const fullName = (name: string) => parseReference(name).name

function layoutFile(spool: Spool, image: string, digest: string): SpooledFile {
  const file = required(spool, image, `blobs/${digest.replace(':', '/')}`)
  if (file.digest !== digest) throw new SandglassError('IMAGE_DIGEST_MISMATCH', { image, digest, issue: `is ${file.digest}` })
  return file
}

async function blob(spool: Spool, image: string, digest: string): Promise<Buffer> {
  layoutFile(spool, image, digest)
  return await textOf(spool, image, `blobs/${digest.replace(':', '/')}`)
}

async function textOf(spool: Spool, image: string, name: string): Promise<Buffer> {
  const found = await spool.text(image, name)
  if (!found) throw lacks(image, name)
  return found
}

function required(spool: Spool, image: string, name: string): SpooledFile {
  const file = spool.file(name)
  if (!file) throw lacks(image, name)
  return file
}

const lacks = (image: string, name: string) => invalid(image, `its archive lacks ${name.slice(0, LIMITS.path_bytes.max)}`)

/** docker save has no manifest of the kind that registries have. Its digest is that of the one that says the same. */
export function manifestDigest(config: { digest: string; size: number }, layers: readonly ArchivedLayer[]): string {
  const manifest: Manifest & { schemaVersion: 2 } = {
    schemaVersion: 2,
    config: { mediaType: 'application/vnd.oci.image.config.v1+json', ...config },
    layers: layers.map(({ file, mediaType }) => ({ mediaType, digest: file.digest, size: file.size })),
  }
  return digestOf(JSON.stringify(manifest))
}

function parsed(image: string, text: Buffer): unknown {
  try {
    return JSON.parse(text.toString('utf8'))
  } catch (error) {
    throw new SandglassError('IMAGE_INVALID', { image, issue: 'its manifest.json is not JSON' }, { cause: error })
  }
}
