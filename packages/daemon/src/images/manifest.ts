// Parses image indexes, manifests and configurations. The OCI and Docker formats differ only in media types.
import { createHash } from 'node:crypto'
import { LIMITS, SandglassError } from '@sandglass/contract'
import { z } from 'zod'

export const MANIFEST_TYPE = 'application/vnd.oci.image.manifest.v1+json'
export const CONFIG_TYPE = 'application/vnd.oci.image.config.v1+json'
/** Of a layer without compression. */
export const LAYER_TYPE = 'application/vnd.oci.image.layer.v1.tar'
/** Annotations in the index.json of a layout: containerd reads the full name, other tools the tag. */
export const FULL_NAME = 'io.containerd.image.name'
export const REF_NAME = 'org.opencontainers.image.ref.name'

const Digest = z.string().regex(/^sha256:[0-9a-f]{64}$/, 'is not a sha256 digest')

const Descriptor = z.object({
  mediaType: z.string().max(256).optional(),
  digest: Digest,
  size: z.int().min(0),
  platform: z.object({ os: z.string(), architecture: z.string(), variant: z.string().optional() }).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
})
export type Descriptor = z.infer<typeof Descriptor>

const Index = z.object({ manifests: z.array(Descriptor).max(1000) })
const Manifest = z.object({ config: Descriptor, layers: z.array(Descriptor) })
export type Manifest = z.infer<typeof Manifest>

const Settings = z.object({ Env: z.array(z.string()).nullish() }).loose()
const ImageConfig = z.object({
  architecture: z.string().max(64),
  os: z.string().max(64),
  config: Settings.nullish(),
  rootfs: z.object({ diff_ids: z.array(Digest) }),
})
export type ImageConfig = z.infer<typeof ImageConfig>

/** This machine's architecture, as images name it. */
export const ARCHITECTURE = process.arch === 'x64' ? 'amd64' : process.arch

/** `image` is the name for error messages. */
export function parseManifest(image: string, bytes: Buffer): { index: Descriptor[] } | { manifest: Manifest } {
  const value = json(image, bytes, 'its manifest')
  if (typeof value === 'object' && value !== null && 'manifests' in value)
    return { index: checked(image, Index, value, 'its index').manifests }
  if (typeof value === 'object' && value !== null && 'schemaVersion' in value && value.schemaVersion === 1)
    throw invalid(image, 'its manifest has the obsolete schema version 1: push the image again with a newer tool')
  const manifest = checked(image, Manifest, value, 'its manifest')
  if (manifest.layers.length > LIMITS.image_layers.max)
    throw new SandglassError('IMAGE_TOO_LARGE', { image, what: 'layers', max: LIMITS.image_layers.max })
  return { manifest }
}

export function parseConfig(image: string, bytes: Buffer, layers: number): ImageConfig {
  const config = checked(image, ImageConfig, json(image, bytes, 'its configuration'), 'its configuration')
  if (config.os !== 'linux' || config.architecture !== ARCHITECTURE)
    throw invalid(image, `it is for ${config.os}/${config.architecture}, but this machine is linux/${ARCHITECTURE}`)
  if (config.rootfs.diff_ids.length !== layers)
    throw invalid(image, 'its configuration and its manifest have different numbers of layers')
  const size = (config.config?.Env ?? []).reduce((sum, line) => sum + Buffer.byteLength(line), 0)
  if (size > LIMITS.image_env_bytes.max)
    throw new SandglassError('IMAGE_TOO_LARGE', { image, what: 'bytes of environment', max: LIMITS.image_env_bytes.max })
  return config
}

/** The manifest for this machine. */
export function pickPlatform(image: string, index: readonly Descriptor[]): Descriptor {
  const found =
    index.find(({ platform }) => platform?.os === 'linux' && platform.architecture === ARCHITECTURE) ??
    // OCI layouts with one image often omit the platform.
    (index.length === 1 && index[0]?.platform === undefined ? index[0] : undefined)
  if (found) return found
  const has = [...new Set(index.flatMap(({ platform }) => (platform ? [`${platform.os}/${platform.architecture}`] : [])))]
  throw invalid(image, `it is available for ${has.join(', ') || 'no platform'}, but not for linux/${ARCHITECTURE}`)
}

/** SECURITY: these describe the sandbox's user, not the user that the image was made for. */
const SET_BY_SANDBOX = new Set(['HOME', 'USER', 'LOGNAME', 'PWD', 'SHELL', 'HOSTNAME'])

export function envOf({ config }: ImageConfig): Record<string, string> {
  const env: [string, string][] = []
  for (const line of config?.Env ?? []) {
    const at = line.indexOf('=')
    const name = line.slice(0, at)
    if (at > 0 && !SET_BY_SANDBOX.has(name) && !line.includes('\0')) env.push([name, line.slice(at + 1)])
  }
  return Object.fromEntries(env)
}

export const digestOf = (bytes: Buffer | string): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`

export const invalid = (image: string, issue: string) => new SandglassError('IMAGE_INVALID', { image, issue })

function json(image: string, bytes: Buffer, what: string): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch (error) {
    throw new SandglassError('IMAGE_INVALID', { image, issue: `${what} is not JSON` }, { cause: error })
  }
}

function checked<T>(image: string, schema: z.ZodType<T>, value: unknown, what: string): T {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [issue] = result.error.issues
  throw invalid(image, `${what}: ${issue?.path.join('.')} ${issue?.message}`)
}
