// POST /v1/images/build: builds an image from a Dockerfile in up to two layers. The first is the project's Dockerfile; the second is an optional
// overlay, whose instructions are shared by many projects. Each layer is cached by a key of its content.
import type { Readable } from 'node:stream'
import { type BuildDone, type BuildQuery, LIMITS, SandglassError } from '@sandglass/contract'
import { admitImage, findImage } from '../../store/images.ts'
import type { ImageContext } from '../context.ts'
import { idPrefix, parseReference, requireAllowed } from '../reference.ts'
import { getImage } from '../store/stored-images.ts'
import { receiveContext } from './build-context.ts'
import { type Built, buildLayer, type LayerBuild } from './build-layer.ts'
import type { BuildEvent } from './build-log.ts'
import { chooseBuilder } from './builders.ts'
import { invalidInstruction, parseDockerfile } from './dockerfile/dockerfile.ts'
import { type Plan, type PlanOptions, planBuild } from './dockerfile/plan.ts'
import { addEntrypoint } from './entrypoint.ts'
import { shownAs, textOf } from './named-files.ts'
import { checkSupported } from './session/session-build.ts'

export type BuildRequest = BuildQuery & { readonly build_args: Readonly<Record<string, string>> }

export type BuildMessage = BuildEvent | { readonly event: 'done'; readonly data: BuildDone }

/** Resolves when the build context has been received and the Dockerfile is valid. The generator yields the events of the build. */
export async function buildImage(
  context: ImageContext,
  body: Readable,
  request: BuildRequest,
  signal: AbortSignal,
): Promise<AsyncGenerator<BuildMessage, void, undefined>> {
  const { dockerfile = 'Dockerfile', overlay, build_args, target } = request
  const reference = request.reference === undefined ? undefined : nameOf(context, request.reference)
  const limit = LIMITS.waiting_builds.max
  if (context.images.builds.size >= limit) throw new SandglassError('TOO_MANY_WAITING', { what: 'builds', limit })
  const builder = await chooseBuilder(context, request.builder ?? context.config.images.builder)
  const name = request.reference ?? shownAs(dockerfile, 'Dockerfile')
  const buildContext = await receiveContext(
    context,
    name,
    body,
    [dockerfile, ...(overlay === undefined ? [] : [overlay])],
    signal,
  )
  try {
    const options: PlanOptions = {
      name: shownAs(dockerfile, 'Dockerfile'),
      buildArgs: build_args,
      fetches: context.config.images.build_network === 'host',
    }
    const plan = planBuild(parseDockerfile(options.name, textOf(buildContext, dockerfile)), { ...options, target })
    const top =
      overlay === undefined ? undefined : overlayOn(shownAs(overlay, 'the overlay'), textOf(buildContext, overlay), options)
    if (builder.kind === 'session') for (const each of [plan, ...(top ? [top('scratch')] : [])]) checkSupported(each)
    const age = request.max_age_seconds ?? context.config.images.max_image_age_seconds
    const common = { builder, name, buildArgs: build_args, maxAgeMs: age * 1000, noCache: request.no_cache ?? false }
    const hasEntrypoint = request.entrypoint ?? overlay !== undefined
    return run(context, { ...common, plan, buildContext }, { top, hasEntrypoint, reference }, signal)
  } catch (error) {
    await buildContext[Symbol.asyncDispose]()
    throw error
  }
}

interface Result {
  /** The plan of the overlay on a project image. */
  readonly top: ((id: string) => Plan) | undefined
  readonly hasEntrypoint: boolean
  readonly reference: string | undefined
}

async function* run(
  context: ImageContext,
  layer: LayerBuild,
  { top, hasEntrypoint, reference }: Result,
  signal: AbortSignal,
): AsyncGenerator<BuildMessage, void, undefined> {
  const project = yield* buildLayer(context, layer, signal)
  const unpin = context.images.pins.pin([project.image.id])
  try {
    const built = top
      ? yield* buildLayer(
          context,
          { ...layer, plan: top(project.image.id), buildContext: null, projectImage: project.image.id },
          signal,
        )
      : project
    const unpinBuilt = context.images.pins.pin([built.image.id])
    try {
      const image = hasEntrypoint ? await addEntrypoint(context, built, signal) : built.image
      yield { event: 'done', data: await done(context, { ...built, image }, project.cached && built.cached, reference) }
    } finally {
      unpinBuilt()
    }
  } finally {
    unpin()
  }
}

async function done(
  context: ImageContext,
  { image, builtAt }: Built,
  cached: boolean,
  reference: string | undefined,
): Promise<BuildDone> {
  const row = await findImage(context.store, image.id)
  if (!row) throw new SandglassError('IMAGE_NOT_FOUND', { image: image.id })
  await admitImage(context.store, { ...row, last_used_at: context.now() }, reference === undefined ? [] : [reference])
  return { image: await getImage(context, image.id), cached, built_at: new Date(builtAt).toISOString() }
}

/** The full name for the result. */
function nameOf({ config }: ImageContext, given: string): string {
  const { name, digest } = parseReference(given)
  if (digest !== null || given === 'host' || idPrefix(given) !== null)
    throw new SandglassError('INVALID_REQUEST', {
      issue: `${given} is not a name for an image`,
      next: 'give a name like app:1.0',
    })
  requireAllowed(config, given)
  return name
}

/** The plan of the overlay on a project image. It names that image by id, so the same overlay on the same image is built once. */
function overlayOn(path: string, text: string, options: PlanOptions): (id: string) => Plan {
  const parsed = parseDockerfile(path, text)
  const from = parsed.instructions.find(({ word }) => word === 'FROM')
  if (from) throw invalidInstruction(path, from.line, 'has FROM, but an overlay starts from the project image', 'remove the FROM')
  const on = (id: string) =>
    planBuild(
      { ...parsed, instructions: [{ line: 0, word: 'FROM', rest: id }, ...parsed.instructions] },
      { ...options, name: path },
    )
  on('scratch') // reports errors before the first build
  return on
}
