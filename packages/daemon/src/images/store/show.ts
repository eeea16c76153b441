// An image as the API shows it.
import type { Image } from '@sandglass/contract'
import type { NamedImage } from '../../store/images.ts'
import type { ImageConfig } from '../manifest.ts'
import { layersOf } from './layer-record.ts'

export function showImage(row: NamedImage): Image {
  return {
    id: row.id,
    references: row.references,
    manifest_digest: row.manifest_digest,
    source: row.source,
    architecture: row.architecture,
    size_bytes: row.size_bytes,
    layers: layersOf(row).map(({ digest, diff_id, media_type, size_bytes }) => ({ digest, diff_id, media_type, size_bytes })),
    config: (JSON.parse(row.config) as ImageConfig).config ?? {},
    created_at: new Date(row.created_at).toISOString(),
    last_used_at: new Date(row.last_used_at).toISOString(),
  }
}
