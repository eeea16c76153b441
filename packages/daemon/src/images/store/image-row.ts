// The row of an image: its layers, the settings kept from its configuration, and the shapes that the API and backends get.
import { type Image, LIMITS } from '@sandglass/contract'
import type { LayeredImage } from '../../backends/backend.ts'
import type { Compression } from '../../layers/layer-tar.ts'
import type { NamedImage } from '../../store/images.ts'
import type { ImageRow } from '../../store/tables.ts'
import { envOf, type ImageConfig } from '../manifest.ts'
import type { Blobs } from './blobs.ts'

export interface LayerRecord {
  readonly digest: string
  readonly diff_id: string
  readonly media_type: string
  readonly size_bytes: number
  readonly compression: Compression
}

const MAX_DEPTH = 16

export const layersOf = ({ layers }: Pick<ImageRow, 'layers'>): LayerRecord[] => JSON.parse(layers)

/** Digests of all blobs of the image. */
export const digestsOf = (row: ImageRow): Set<string> => new Set([row.id, ...layersOf(row).map(layer => layer.digest)])

export function layeredImage(blobs: Blobs, row: ImageRow, reference: string): LayeredImage {
  return {
    kind: 'layers',
    reference,
    id: row.id,
    config: blobs.path(row.id),
    layers: layersOf(row).map(({ digest, diff_id, compression }) => ({ diffId: diff_id, blob: blobs.path(digest), compression })),
    env: envOf(JSON.parse(row.config) as ImageConfig),
  }
}

export function showImage(row: NamedImage): Image {
  return {
    id: row.id,
    references: row.references,
    manifest_digest: row.manifest_digest,
    source: row.source === 'step' ? 'build' : row.source,
    architecture: row.architecture,
    size_bytes: row.size_bytes,
    layers: layersOf(row).map(({ digest, diff_id, media_type, size_bytes }) => ({ digest, diff_id, media_type, size_bytes })),
    config: (JSON.parse(row.config) as ImageConfig).config ?? {},
    created_at: new Date(row.created_at).toISOString(),
    last_used_at: new Date(row.last_used_at).toISOString(),
  }
}

/**
 * The settings of a configuration that the row keeps.
 * SECURITY: lists read hundreds of rows, and a configuration may have megabytes of labels, so the largest settings are dropped.
 */
export function storedSettings({ config }: ImageConfig): Record<string, unknown> {
  const settings = Object.entries(config ?? {}).map(([name, value]) => ({ name, value, size: name.length + sizeOf(value) }))
  // Env always stays: programs start with it, and parseConfig has checked its size.
  settings.sort((a, b) => Number(b.name === 'Env') - Number(a.name === 'Env') || a.size - b.size)
  let left = LIMITS.image_settings_bytes.max
  const kept = settings.filter(({ name, size }) => {
    left -= size
    return left >= 0 || name === 'Env'
  })
  return Object.fromEntries(kept.map(({ name, value }) => [name, value]))
}

/** Size as JSON; infinite for a value that is nested too deeply to serialise. */
function sizeOf(value: unknown): number {
  return isDeep(value, MAX_DEPTH) ? Number.POSITIVE_INFINITY : JSON.stringify(value).length
}

function isDeep(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return depth === 0 || Object.values(value).some(inner => isDeep(inner, depth - 1))
}
