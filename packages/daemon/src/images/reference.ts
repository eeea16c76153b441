// Image references in their short and full forms (`debian` is docker.io/library/debian:latest), and the check against allowed_images.
import { type Config, LIMITS, SandglassError } from '@sandglass/contract'

export interface Reference {
  /** Host, with the port if there is one. */
  readonly registry: string
  readonly repository: string
  /** Exactly one of tag and digest is set. If the text has both, the digest wins. */
  readonly tag: string | null
  readonly digest: string | null
  /** The full form, which is compared and stored. */
  readonly name: string
}

export const DOCKER_HUB = 'docker.io'

const HOST = /^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?$/i
const REPOSITORY = /^[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*$/
const TAG = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/
const DIGEST = /^sha256:[0-9a-f]{64}$/
const SHORT_ID = /^(?:sha256:)?([0-9a-f]{12,64})$/

/** Throws INVALID_REQUEST. */
export function parseReference(text: string): Reference {
  const { max } = LIMITS.image_reference
  if (text.length > max) throw invalidReference(`${text.slice(0, 64)}…`, `it is longer than ${max} characters`)
  const [rest = '', digest = null, ...more] = text.split('@')
  if (more.length > 0 || (digest !== null && !DIGEST.test(digest)))
    throw invalidReference(text, 'the part after @ must be a sha256 digest')
  const { registry, path } = splitHost(rest)
  if (!HOST.test(registry)) throw invalidReference(text, `${registry} is not a host name`)
  const colon = path.lastIndexOf(':')
  const tag = colon < 0 ? null : path.slice(colon + 1)
  if (tag !== null && !TAG.test(tag))
    throw invalidReference(text, 'the part after : must be a tag, 1 to 128 of A-Z, a-z, 0-9, _, . and -')
  const given = colon < 0 ? path : path.slice(0, colon)
  const repository = registry === DOCKER_HUB && !given.includes('/') ? `library/${given}` : given
  if (!REPOSITORY.test(repository))
    throw invalidReference(text, 'a repository name consists of a-z and 0-9, separated by ., _, - or /')
  const what = digest === null ? `:${tag ?? 'latest'}` : `@${digest}`
  return {
    registry,
    repository,
    tag: digest === null ? (tag ?? 'latest') : null,
    digest,
    name: `${registry}/${repository}${what}`,
  }
}

/** The hex digits of an image id or of an id prefix; null for other text. Text of 12 to 64 hex digits counts as an id. */
export const idPrefix = (text: string): string | null => SHORT_ID.exec(text)?.[1] ?? null

/** Throws IMAGE_NOT_ALLOWED unless allowed_images is absent or lists the image. `ids` are the ids that the name resolves to. */
export function requireAllowed({ allowed_images }: Readonly<Config>, image: string, ids: readonly string[] = []): void {
  if (!allowed_images) return
  const names = [normalised(image), ...ids]
  if (!allowed_images.some(allowed => names.includes(normalised(allowed))))
    throw new SandglassError('IMAGE_NOT_ALLOWED', { image })
}

export const normalised = (text: string): string => {
  if (text === 'host') return text
  const prefix = idPrefix(text)
  return prefix === null ? parseReference(text).name : `sha256:${prefix}`
}

/** The first part is a host if it contains a dot or a port, or is localhost. */
function splitHost(text: string): { registry: string; path: string } {
  const slash = text.indexOf('/')
  const first = slash < 0 ? '' : text.slice(0, slash)
  if (first === '' || !(/[.:]/.test(first) || first === 'localhost')) return { registry: DOCKER_HUB, path: text }
  const registry = first.toLowerCase()
  return { registry: registry === 'index.docker.io' ? DOCKER_HUB : registry, path: text.slice(slash + 1) }
}

const invalidReference = (text: string, why: string) =>
  new SandglassError('INVALID_REQUEST', {
    issue: `${JSON.stringify(text)} is not an image reference: ${why}`,
    next: 'examples: host, debian:12, registry.local:5000/team/app:1.0, app@sha256:…',
  })
