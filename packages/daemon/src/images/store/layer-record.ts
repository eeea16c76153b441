// How the row of an image names its layers, and what a backend is given of it.
import type { LayeredImage } from '../../backends/backend.ts'
import type { Compression } from '../../layers/layer-tar.ts'
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

export const layersOf = ({ layers }: Pick<ImageRow, 'layers'>): LayerRecord[] => JSON.parse(layers)

/** Of all its blobs. */
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
