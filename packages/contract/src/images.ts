// Images: root filesystems that sessions start from, kept in the daemon's store.
import { z } from 'zod'
import { LIMITS } from './limits.ts'
import { queryInt, Timestamp } from './primitives.ts'

export const IMAGE_PHASES = ['waiting', 'downloading', 'unpacking', 'done'] as const
export const IMAGE_SOURCES = ['registry', 'archive', 'build'] as const

export const ImageRef = z
  .string()
  .min(1)
  .max(LIMITS.image_reference.max)
  .describe('a reference (debian:12, registry.local:5000/team/app@sha256:…), an image id, or 12 or more characters of one')

const Digest = z.string().describe('sha256:… of the bytes')

export const ImageLayer = z.object({
  digest: Digest,
  diff_id: Digest.describe('digest of the uncompressed layer'),
  media_type: z.string(),
  size_bytes: z.int().describe('as it came, compressed or not'),
})

export const Image = z.object({
  id: z.string().describe('digest of its configuration'),
  references: z.array(z.string()).describe('names that lead to it, in full'),
  manifest_digest: Digest,
  source: z.enum(IMAGE_SOURCES),
  architecture: z.string(),
  size_bytes: z.int().describe('of its layers as they came; layers may be shared with other images'),
  layers: z.array(ImageLayer).describe('lowest first'),
  config: z.record(z.string(), z.unknown()).describe('what its configuration says about running it: Env, Cmd, Labels and so on'),
  created_at: Timestamp,
  last_used_at: Timestamp,
})
export type Image = z.infer<typeof Image>

export const ImageQuery = z.strictObject({
  limit: queryInt(LIMITS.list_page.min, LIMITS.list_page.max).optional(),
  offset: queryInt(0, 1_000_000_000).optional(),
  cursor: z.string().max(256).optional(),
})
export type ImageQuery = z.infer<typeof ImageQuery>

export const ImageList = z.object({
  items: z.array(Image),
  total: z.int(),
  limit: z.int(),
  offset: z.int(),
  next_cursor: z.string().nullable(),
})
export type ImageList = z.infer<typeof ImageList>

export const PullRequest = z.strictObject({ reference: ImageRef.describe('what to pull') })
export const ImportQuery = z.strictObject({
  reference: ImageRef.optional().describe('name of the image; for an archive that has none, or another one, and one image'),
})

export const ImageProgress = z.object({
  digest: Digest.describe('of the layer'),
  phase: z.enum(IMAGE_PHASES),
  done_bytes: z.int(),
  total_bytes: z.int(),
})
export type ImageProgress = z.infer<typeof ImageProgress>

export const ImportDone = z.object({ items: z.array(Image) })

export const ImageRemoved = z.object({
  id: z.string(),
  references: z.array(z.string()).describe('names that are gone'),
  removed: z.boolean().describe('false when the image stays under other names'),
  freed_bytes: z.int(),
})
export type ImageRemoved = z.infer<typeof ImageRemoved>
