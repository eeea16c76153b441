// POST /v1/images/build: an image from a Dockerfile, in two layers. First that of the project; then, where it is asked for, an overlay on top,
// whose instructions are the same for many projects. Each is kept under a key of its content.
import type { Readable } from 'node:stream'
import { type BuildDone, type BuildQuery, LIMITS, SandglassError } from '@sandglass/contract'
import { admitImage, findImage } from '../../store/images.ts'
import type { ImageWorld } from '../context.ts'
import { idPrefix, parseReference } from '../reference.ts'
import { requireAllowed } from '../store/allowed.ts'
import { getImage } from '../store/list.ts'
import { type Builder, type Built, buildLayer, type LayerBuild } from './build-layer.ts'
import type { BuildEvent } from './build-log.ts'
import { type BuildContext, RESERVED, receiveContext } from './context.ts'
import { parseDockerfile, wrong } from './dockerfile/dockerfile.ts'
import { type Plan, type PlanOptions, planBuild } from './dockerfile/plan.ts'

export type BuildRequest = BuildQuery & { readonly build_args: Readonly<Record<string, string>> }

export type BuildTold = BuildEvent | { readonly event: 'done'; readonly data: BuildDone }

/** Resolves when the files have come and make sense. What is given tells of the rest. */
export async function buildImage(
  world: ImageWorld,
  body: Readable,
  request: BuildRequest,
  signal: AbortSignal,
): Promise<AsyncGenerator<BuildTold, void, undefined>> {
  const { dockerfile = 'Dockerfile', overlay, build_args, target } = request
  const reference = request.reference === undefined ? undefined : nameOf(world, request.reference)
  const limit = LIMITS.waiting_builds.max
  if (world.images.builds.size >= limit) throw new SandglassError('TOO_MANY_WAITING', { what: 'builds', limit })
  const builder = await findBuilder(world)
  const name = request.reference ?? shownAs(dockerfile, 'Dockerfile')
  const context = await receiveContext(world, name, body, [dockerfile, ...(overlay === undefined ? [] : [overlay])], signal)
  try {
    const options: PlanOptions = {
      name: shownAs(dockerfile, 'Dockerfile'),
      buildArgs: build_args,
      fetches: world.config.images.build_network === 'host',
    }
    const plan = planBuild(parseDockerfile(options.name, textOf(context, dockerfile)), { ...options, target })
    const top = overlay === undefined ? undefined : overlayOn(shownAs(overlay, 'the overlay'), textOf(context, overlay), options)
    const age = request.max_age_seconds ?? world.config.images.max_image_age_seconds
    const common = { builder, name, buildArgs: build_args, maxAgeMs: age * 1000, noCache: request.no_cache ?? false }
    return run(world, { ...common, plan, context }, top, reference, signal)
  } catch (error) {
    await context[Symbol.asyncDispose]()
    throw error
  }
}

async function* run(
  world: ImageWorld,
  layer: LayerBuild,
  top: ((id: string) => Plan) | undefined,
  reference: string | undefined,
  signal: AbortSignal,
): AsyncGenerator<BuildTold, void, undefined> {
  const project = yield* buildLayer(world, layer, signal)
  const release = world.images.held.hold([project.image.id])
  try {
    const built = top
      ? yield* buildLayer(world, { ...layer, plan: top(project.image.id), context: null, own: project.image.id }, signal)
      : project
    yield { event: 'done', data: await done(world, built, project.cached && built.cached, reference) }
  } finally {
    release()
  }
}

async function done(
  world: ImageWorld,
  { image, builtAt }: Built,
  cached: boolean,
  reference: string | undefined,
): Promise<BuildDone> {
  const row = await findImage(world.store, image.id)
  if (!row) throw new SandglassError('IMAGE_NOT_FOUND', { image: image.id })
  await admitImage(world.store, { ...row, last_used_at: world.now() }, reference === undefined ? [] : [reference])
  return { image: await getImage(world, image.id), cached, built_at: new Date(builtAt).toISOString() }
}

/** The name that the result gets. */
function nameOf({ config }: ImageWorld, given: string): string {
  const { name, digest } = parseReference(given)
  if (digest !== null || given === 'host' || idPrefix(given) !== null)
    throw new SandglassError('INVALID_REQUEST', { issue: `${given} is no name for an image`, next: 'give it one like app:1.0' })
  requireAllowed(config, given)
  return name
}

/** Names that the command line makes up mean nothing to who gave the file. */
const shownAs = (path: string, what: string) => (RESERVED.includes(path) ? what : path)

function textOf(context: BuildContext, path: string): string {
  const text = context.text(path)
  if (text !== undefined) return text
  throw new SandglassError('FILE_NOT_FOUND', { path, where: 'in the files of the build' })
}

/** Its first layer is known by its id alone, so that the same overlay on the same image is built once. */
function overlayOn(path: string, text: string, options: PlanOptions): (id: string) => Plan {
  const parsed = parseDockerfile(path, text)
  const from = parsed.instructions.find(({ word }) => word === 'FROM')
  if (from) throw wrong(path, from.line, 'has FROM, and an overlay starts from what was built', 'leave the FROM out')
  const on = (id: string) =>
    planBuild(
      { ...parsed, instructions: [{ line: 0, word: 'FROM', rest: id }, ...parsed.instructions] },
      { ...options, name: path },
    )
  on('scratch') // what is wrong with it is told before anything is built
  return on
}

/** Builds need an engine: what the steps may reach and take is bounded there. */
async function findBuilder({ backends }: ImageWorld): Promise<Builder> {
  let why = 'no backend here has one'
  for (const backend of backends.values()) {
    if (!backend.buildImage) continue
    const probe = await backend.probe()
    if (probe.available) return backend as Builder
    why = `${probe.why}; ${probe.fix}`
  }
  throw new SandglassError('BACKEND_UNAVAILABLE', { backend: 'docker', why: `a Docker engine builds images, and ${why}` })
}
