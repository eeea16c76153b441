// Names of images, as people write them and as they are kept: `debian` is docker.io/library/debian:latest.
import { LIMITS, SandglassError } from '@sandglass/contract'

export interface Reference {
  /** Host, with its port if it has one. */
  readonly registry: string
  readonly repository: string
  /** What is asked for: a tag, or a digest, which wins where both are given. */
  readonly tag: string | null
  readonly digest: string | null
  /** The whole, in the one form that is compared and stored. */
  readonly name: string
}

export const DOCKER_HUB = 'docker.io'

const HOST = /^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?$/i
const REPOSITORY = /^[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*$/
const TAG = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/
const DIGEST = /^sha256:[0-9a-f]{64}$/
const SHORT_ID = /^(?:sha256:)?([0-9a-f]{12,64})$/

/** INVALID_REQUEST says what is wrong with it. */
export function parseReference(text: string): Reference {
  const { max } = LIMITS.image_reference
  if (text.length > max) throw wrong(`${text.slice(0, 64)}…`, `it is longer than ${max} characters`)
  const [rest = '', digest = null, ...more] = text.split('@')
  if (more.length > 0 || (digest !== null && !DIGEST.test(digest))) throw wrong(text, 'the part after @ must be a sha256 digest')
  const { registry, path } = splitHost(rest)
  if (!HOST.test(registry)) throw wrong(text, `${registry} is not a host name`)
  const colon = path.lastIndexOf(':')
  const tag = colon < 0 ? null : path.slice(colon + 1)
  if (tag !== null && !TAG.test(tag)) throw wrong(text, 'the part after : must be a tag, 1 to 128 of A-Z, a-z, 0-9, _, . and -')
  const given = colon < 0 ? path : path.slice(0, colon)
  const repository = registry === DOCKER_HUB && !given.includes('/') ? `library/${given}` : given
  if (!REPOSITORY.test(repository)) throw wrong(text, 'a repository name consists of a-z and 0-9, separated by ., _, - or /')
  const what = digest === null ? `:${tag ?? 'latest'}` : `@${digest}`
  return {
    registry,
    repository,
    tag: digest === null ? (tag ?? 'latest') : null,
    digest,
    name: `${registry}/${repository}${what}`,
  }
}

/** The hex digits of an image id, or its beginning; null for what is no id. A name of hex digits alone is taken for an id. */
export const idPrefix = (text: string): string | null => SHORT_ID.exec(text)?.[1] ?? null

/** The form in which allowed_images and requests are compared. */
export const normalised = (text: string): string => {
  if (text === 'host') return text
  const prefix = idPrefix(text)
  return prefix === null ? parseReference(text).name : `sha256:${prefix}`
}

/** The first part is a host when it looks like one: with a dot or a port, or localhost. */
function splitHost(text: string): { registry: string; path: string } {
  const slash = text.indexOf('/')
  const first = slash < 0 ? '' : text.slice(0, slash)
  if (first === '' || !(/[.:]/.test(first) || first === 'localhost')) return { registry: DOCKER_HUB, path: text }
  const registry = first.toLowerCase()
  return { registry: registry === 'index.docker.io' ? DOCKER_HUB : registry, path: text.slice(slash + 1) }
}

const wrong = (text: string, why: string) =>
  new SandglassError('INVALID_REQUEST', {
    issue: `${JSON.stringify(text)} is not an image reference: ${why}`,
    next: 'examples: host, debian:12, registry.local:5000/team/app:1.0, app@sha256:…',
  })
