// Errors of images, registries and builds.
import { AFTER_A_CHANGE, type ErrorRow } from './row.ts'

type BuildFailure = {
  image: string
  /** Null for a failure outside of a step. */
  step: number | null
  steps: number | null
  instruction: string | null
  /** Line of the instruction in its file; absent if the builder does not tell. */
  line?: number
  exit_code: number | null
  why: string
  /** The last lines of the step. */
  output: string[]
  next?: string
}

export const IMAGES_ERRORS = {
  IMAGE_NOT_ALLOWED: {
    http: 403,
    exit: 3,
    text: (d: { image: string }) => `image ${d.image} is not in allowed_images`,
    hint: `use an image from that list, or add this one to it; ${AFTER_A_CHANGE}`,
  },
  IMAGE_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { image: string; registry?: string; next?: string }) =>
      d.registry ? `${d.registry} has no image ${d.image}` : `no image ${d.image}`,
    hint: (d: { next?: string }) => d.next ?? '`sandglass image ls` shows the images in the store; `host` is always there',
  },
  IMAGE_INVALID: {
    http: 422,
    exit: 3,
    text: (d: { image: string; issue: string }) => `${imageCalled(d.image)} cannot be used: ${d.issue}`,
    hint: 'nothing was stored',
  },
  IMAGE_TOO_LARGE: {
    http: 413,
    exit: 3,
    text: (d: { image: string; what: string; max: number; next?: string }) =>
      `${imageCalled(d.image)} has more than the ${d.max} ${d.what} that an image may have`,
    hint: (d: { next?: string }) => d.next ?? `images.max_bytes in the configuration bounds an image; ${AFTER_A_CHANGE}`,
  },
  IMAGE_DIGEST_MISMATCH: {
    http: 502,
    exit: 3,
    text: (d: { image: string; digest: string; issue: string }) =>
      `${imageCalled(d.image)}: the content received for ${d.digest} ${d.issue}`,
    hint: 'the content was discarded; try again, and do not trust the source if this happens again',
  },
  IMAGE_IN_USE: {
    http: 409,
    exit: 5,
    text: (d: { image: string; sessions: string[] }) =>
      `image ${d.image} is in use by ${d.sessions.length === 1 ? 'session' : 'sessions'} ${d.sessions.join(', ')}`,
    hint: (d: { sessions: string[] }) =>
      `end ${d.sessions.length === 1 ? 'it' : 'them'} first: sandglass rm ${d.sessions.join(' ')}`,
  },
  IMAGE_STORE_FULL: {
    http: 507,
    exit: 3,
    text: (d: { image: string; why: string }) => `no disk space for ${imageCalled(d.image)}: ${d.why}`,
    hint: '`sandglass image rm` removes images, `sandglass rm` sessions with their disks',
  },
  IMAGE_BUILD_FAILED: {
    http: 422,
    exit: 3,
    text: (d: BuildFailure) => `image ${d.image} was not built: ${failedStep(d)}`,
    hint: (d: BuildFailure) => d.next ?? fixBuild(d),
  },
  REGISTRY_DENIED: {
    http: 403,
    exit: 3,
    text: (d: { registry: string; image: string; why: string; next?: string }) =>
      `${d.registry} denies access to ${d.image}: ${d.why}`,
    hint: (d: { registry: string; next?: string }) =>
      d.next ??
      `check the name; a private image needs username and password for ${d.registry} under registries in the configuration; ${AFTER_A_CHANGE}`,
  },
  REGISTRY_FAILED: {
    http: 502,
    exit: 3,
    text: (d: { registry: string; why: string; next?: string }) => `registry ${d.registry}: ${d.why}`,
    hint: (d: { next?: string }) => d.next ?? 'try again: completed downloads are kept',
  },
} as const satisfies Record<string, ErrorRow>

function failedStep({ step, steps, instruction, line, exit_code, why }: BuildFailure): string {
  if (step === null) return why
  return `step ${step} of ${steps} (${instruction})${line ? ` at line ${line}` : ''} ${exit_code === null ? `failed: ${why}` : `ended with exit code ${exit_code}`}`
}

function fixBuild({ output }: BuildFailure): string {
  if (output.length === 0) return 'fix the Dockerfile'
  if (!NO_NETWORK.test(String(output))) return 'fix the step and build again: the steps before it are cached'
  return `if the step needs the network: images.build_network in the configuration sets what steps can reach; ${AFTER_A_CHANGE}`
}

/** Messages of apt, curl, git, pip and npm. */
const NO_NETWORK =
  /could not resolve|temporary failure (in name resolution|resolving)|network is unreachable|EAI_AGAIN|ENOTFOUND/i

/** `the archive` stands for an import without a reference. */
const imageCalled = (image: string) => (image === 'the archive' ? image : `image ${image}`)
