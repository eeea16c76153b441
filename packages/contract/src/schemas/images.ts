// Images: root filesystems of sessions, kept in the store of the daemon.
import { z } from 'zod'
import { LIMITS } from '../tables/limits.ts'
import { Env, queryBool, queryInt, Timestamp } from './primitives.ts'

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
  size_bytes: z.int().describe('size as downloaded, compressed or not'),
})

export const Image = z.object({
  id: z.string().describe('digest of its configuration'),
  references: z.array(z.string()).describe('full names of the image'),
  manifest_digest: Digest,
  source: z.enum(IMAGE_SOURCES),
  architecture: z.string(),
  size_bytes: z.int().describe('total size of the layers as downloaded; other images may share layers'),
  layers: z.array(ImageLayer).describe('lowest first'),
  config: z
    .record(z.string(), z.unknown())
    .describe('settings for running the image, such as Env, Cmd and Labels; beyond 64 KiB the largest are left out'),
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
  reference: ImageRef.optional().describe('name of the image, for an archive with one image; replaces the name in the archive'),
})

export const ImageProgress = z.object({
  digest: Digest.describe('of the layer'),
  phase: z.enum(IMAGE_PHASES),
  done_bytes: z.int(),
  total_bytes: z.int(),
})
export type ImageProgress = z.infer<typeof ImageProgress>

export const ImportDone = z.object({ items: z.array(Image) })

const ContextPath = z.string().min(1).max(LIMITS.path_bytes.max)

export const BuildQuery = z.strictObject({
  reference: ImageRef.optional().describe(
    'name of the image; an image without a name is addressed by its id, until it exceeds its maximum age',
  ),
  dockerfile: ContextPath.optional().describe('path of the Dockerfile in the context; Dockerfile when absent'),
  overlay: ContextPath.optional().describe(
    'path in the context of a Dockerfile whose instructions are built on top, without a context; several images can share an overlay',
  ),
  entrypoint: queryBool
    .optional()
    .describe(
      'true: a last layer has an entrypoint that sets IS_SANDBOX=1 and trusts the certificate authority of the sandbox; when absent, builds with an overlay have it',
    ),
  target: z.string().min(1).max(128).optional().describe('stage to build; the last one when absent'),
  max_age_seconds: queryInt(LIMITS.image_age_seconds.min, LIMITS.image_age_seconds.max)
    .optional()
    .describe('maximum age of a cached result; images.max_image_age_seconds when absent'),
  builder: z
    .enum(['auto', 'session', 'docker'])
    .optional()
    .describe(
      'what runs the steps: docker (a Docker engine), session (sandboxes), or auto (the engine if one answers, otherwise sandboxes); images.builder when absent',
    ),
  no_cache: queryBool.optional().describe('true: build every step, without the cache'),
})
export type BuildQuery = z.infer<typeof BuildQuery>

export const HashQuery = BuildQuery.pick({ dockerfile: true, target: true })
export type HashQuery = z.infer<typeof HashQuery>

export const BuildHash = z.object({
  hash: z.string().describe('digest of everything that decides the result of the build, in hex'),
  image_id: z.string().nullable().describe('the image that was built from the same content; null if there is none'),
  built_at: Timestamp.nullable(),
})
export type BuildHash = z.infer<typeof BuildHash>

/** SECURITY: in a header and not in the URL, which proxies write to their logs. */
export const BUILD_ARGS_HEADER = 'x-build-args'
export const BuildHeaders = z.object({
  [BUILD_ARGS_HEADER]: z
    .string()
    .transform((text, context) => {
      try {
        return JSON.parse(text) as unknown
      } catch {
        context.addIssue({ code: 'custom', message: 'is not JSON' })
        return z.NEVER
      }
    })
    .pipe(Env)
    .optional()
    .describe('build arguments as a JSON object, with non-ASCII characters escaped'),
})

export const BuildStep = z.object({
  step: z.int(),
  steps: z.int(),
  instruction: z.string(),
  cached: z.boolean().describe('true once the engine reports that the step is cached'),
})
export type BuildStep = z.infer<typeof BuildStep>
export const BuildOutput = z.object({ text: z.string().describe('whole lines') })
export const BuildDone = z.object({
  image: Image,
  cached: z.boolean().describe('true: nothing had to be built'),
  built_at: Timestamp,
})
export type BuildDone = z.infer<typeof BuildDone>

export const ImageRemoved = z.object({
  id: z.string(),
  references: z.array(z.string()).describe('removed names'),
  removed: z.boolean().describe('false: the image still has other names'),
  freed_bytes: z.int(),
})
export type ImageRemoved = z.infer<typeof ImageRemoved>
