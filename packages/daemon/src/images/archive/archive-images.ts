// Finds the images in an archive: docker save writes manifest.json, an OCI layout has index.json, and newer docker save writes both.
import { LIMITS, SandglassError } from '@sandglass/contract'
import { z } from 'zod'
import {
  CONFIG_TYPE,
  type Descriptor,
  digestOf,
  FULL_NAME,
  invalid,
  LAYER_TYPE,
  type Manifest,
  parseConfig,
  parseManifest,
  pickPlatform,
  REF_NAME,
} from '../manifest.ts'
import { parseReference } from '../reference.ts'
import type { Spool, SpooledFile } from './spool.ts'

export interface ArchivedImage {
  /** Digest of the configuration. */
  readonly id: string
  /** SECURITY: read on demand, because all configurations of an archive together may exceed the memory. */
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

/** With the names from the archive, which may be none. */
export async function archivedImages(spool: Spool): Promise<ArchivedImage[]> {
  const saved = await spool.text('manifest.json')
  if (saved) return await savedImages(spool, saved)
  const index = await spool.text('index.json')
  if (index) return await layoutImages(spool, index)
  throw invalid(spool.image, 'its archive has neither manifest.json (docker save) nor index.json (OCI layout)')
}

/** `reference` replaces the names of the archive's only image. */
export function withReference(found: readonly ArchivedImage[], reference: string | undefined): readonly ArchivedImage[] {
  if (reference === undefined) {
    if (found.some(({ references }) => references.length === 0))
      throw new SandglassError('INVALID_REQUEST', {
        issue: 'reference is missing: the archive has an image without a name',
        next: 'give a name like app:1.0',
      })
    return found
  }
  const [only, ...more] = found
  if (!only || more.length > 0)
    throw new SandglassError('INVALID_REQUEST', { issue: `reference names one image, but the archive has ${found.length}` })
  return [{ ...only, references: [parseReference(reference).name] }]
}

async function savedImages(spool: Spool, text: Buffer): Promise<ArchivedImage[]> {
  const { image } = spool
  const entries = Saved.safeParse(parsed(image, text))
  if (!entries.success) throw invalid(image, 'its manifest.json does not have the format of docker save')
  const distinct = distinctImages(
    image,
    entries.data.map(({ RepoTags, ...entry }) => ({
      ...entry,
      id: requireFile(spool, entry.Config).digest,
      references: RepoTags ?? [],
    })),
  )
  const images: ArchivedImage[] = []
  for (const { id, references, Config, Layers } of distinct) {
    if (Layers.length > LIMITS.image_layers.max)
      throw new SandglassError('IMAGE_TOO_LARGE', { image, what: 'layers', max: LIMITS.image_layers.max })
    const config = () => textOf(spool, Config)
    const bytes = await config()
    const { architecture, rootfs } = parseConfig(image, bytes, Layers.length)
    const layers = Layers.map((name, i) => ({
      file: requireFile(spool, name),
      diffId: rootfs.diff_ids[i] ?? '',
      mediaType: LAYER_TYPE,
    }))
    const digest = manifestDigest({ digest: id, size: bytes.length }, layers)
    images.push({ id, config, architecture, manifestDigest: digest, references: references.map(fullName), layers })
  }
  return images
}

async function layoutImages(spool: Spool, text: Buffer): Promise<ArchivedImage[]> {
  const { image } = spool
  const top = parseManifest(image, text)
  if (!('index' in top)) throw invalid(image, 'its index.json is not an index')
  const groups = top.index.filter(({ annotations, platform }) => annotations?.[REF_NAME] !== undefined || platform === undefined)
  const chosen = groups.length > 0 ? groups : [pickPlatform(image, top.index)]
  const distinct = distinctImages(
    image,
    chosen.map(descriptor => ({ id: descriptor.digest, references: namesIn(descriptor) })),
  )
  const images: ArchivedImage[] = []
  for (const { id, references } of distinct) images.push({ ...(await layoutImage(spool, id, 0)), references })
  // Two manifests may have the same configuration.
  return distinctImages(image, images)
}

async function layoutImage(spool: Spool, digest: string, depth: number): Promise<ArchivedImage> {
  const { image } = spool
  const found = parseManifest(image, await blob(spool, digest))
  if ('index' in found) {
    if (depth > 3) throw invalid(image, 'its indexes are nested too deeply')
    return await layoutImage(spool, pickPlatform(image, found.index).digest, depth + 1)
  }
  const id = found.manifest.config.digest
  const config = () => blob(spool, id)
  const { architecture, rootfs } = parseConfig(image, await config(), found.manifest.layers.length)
  const layers = found.manifest.layers.map(({ digest, mediaType }, i) => ({
    file: layoutFile(spool, digest),
    diffId: rootfs.diff_ids[i] ?? '',
    mediaType: mediaType ?? LAYER_TYPE,
  }))
  return { id, config, architecture, manifestDigest: digest, references: [], layers }
}

/** Some tools write a bare tag there, which is not a name. */
function namesIn({ annotations }: Descriptor): string[] {
  const name = annotations?.[FULL_NAME] ?? annotations?.[REF_NAME]
  return name === undefined || !/[:/@]/.test(name) ? [] : [fullName(name)]
}

const fullName = (name: string) => parseReference(name).name

function layoutFile(spool: Spool, digest: string): SpooledFile {
  const file = requireFile(spool, `blobs/${digest.replace(':', '/')}`)
  if (file.digest !== digest)
    throw new SandglassError('IMAGE_DIGEST_MISMATCH', { image: spool.image, digest, issue: `is ${file.digest}` })
  return file
}

async function blob(spool: Spool, digest: string): Promise<Buffer> {
  layoutFile(spool, digest)
  return await textOf(spool, `blobs/${digest.replace(':', '/')}`)
}

async function textOf(spool: Spool, name: string): Promise<Buffer> {
  const found = await spool.text(name)
  if (!found) throw missing(spool, name)
  return found
}

function requireFile(spool: Spool, name: string): SpooledFile {
  const file = spool.file(name)
  if (!file) throw missing(spool, name)
  return file
}

const missing = ({ image }: Spool, name: string) => invalid(image, `its archive lacks ${name.slice(0, LIMITS.path_bytes.max)}`)

/**
 * Merges entries with the same id into one, with all of their names.
 * SECURITY: a few bytes in the index of an archive can name one image many times, and each would cost as much as the whole image.
 */
function distinctImages<T extends { readonly id: string; readonly references: readonly string[] }>(
  image: string,
  found: readonly T[],
): T[] {
  const distinct = new Map<string, { first: T; names: Set<string> }>()
  const names = new Set<string>()
  for (const each of found) {
    const known = distinct.get(each.id) ?? { first: each, names: new Set() }
    distinct.set(each.id, known)
    for (const name of each.references) {
      known.names.add(name)
      names.add(name)
    }
  }
  for (const [what, count, { max }] of [
    ['images', distinct.size, LIMITS.archive_images],
    ['names', names.size, LIMITS.archive_names],
  ] as const)
    if (count > max) throw new SandglassError('IMAGE_TOO_LARGE', { image, what, max })
  return [...distinct.values()].map(({ first, names }) => ({ ...first, references: [...names] }))
}

/** docker save writes no registry manifest. This is the digest of an equivalent one. */
export function manifestDigest(config: { digest: string; size: number }, layers: readonly ArchivedLayer[]): string {
  const manifest: Manifest & { schemaVersion: 2 } = {
    schemaVersion: 2,
    config: { mediaType: CONFIG_TYPE, ...config },
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
