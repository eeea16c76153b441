// One of the two layers of a build: found under its key, or made by the engine. Two who ask for the same at once wait for one build.
import { type Image, SandglassError } from '@sandglass/contract'
import type { Backend, ImageBuild } from '../../backends/backend.ts'
import type { Flight } from '../../lib/single-flight.ts'
import { findBuild, findImage, recordBuild } from '../../store/images.ts'
import type { ImageWorld } from '../context.ts'
import { digestsOf } from '../store/layer-record.ts'
import { getImage } from '../store/list.ts'
import { type Base, resolveBases } from './bases.ts'
import { type BuildEvent, BuildLog } from './build-log.ts'
import type { BuildContext } from './context.ts'
import type { Plan } from './dockerfile/plan.ts'
import { buildKey } from './key.ts'
import { hideSecrets, looksSecret } from './secret-args.ts'
import { takeBuilt } from './take-built.ts'

export type Builder = Backend & Required<Pick<Backend, 'buildImage'>>

export interface LayerBuild {
  readonly builder: Builder
  /** For messages. */
  readonly name: string
  readonly plan: Plan
  readonly context: BuildContext | null
  /** Id of an image that was built just before, which needs nobody's leave. */
  readonly own?: string
  readonly buildArgs: Readonly<Record<string, string>>
  readonly maxAgeMs: number
  readonly noCache: boolean
}

export interface Built {
  readonly image: Image
  readonly cached: boolean
  readonly builtAt: number
}

/** Removes the context when it is not needed any more, whoever needs it last. */
export async function* buildLayer(
  world: ImageWorld,
  layer: LayerBuild,
  signal: AbortSignal,
): AsyncGenerator<BuildEvent, Built, undefined> {
  const { builds } = world.images
  const { build_network: network } = world.config.images
  const held: (() => void)[] = []
  let isHandedOver = false
  try {
    const options = {
      maxAgeMs: layer.maxAgeMs,
      fetches: network === 'host',
      own: layer.own,
      hold: (id: string) => void held.push(world.images.held.hold([id])),
    }
    const bases = yield* resolveBases(world, layer.plan.bases, options, signal)
    const key = buildKey({
      dockerfile: layer.plan.dockerfile(bases.map(({ id }) => id)),
      contextDigest: layer.context?.digest ?? null,
      buildArgs: layer.buildArgs,
      network,
    })
    const found = await stored(world, key)
    const isFresh = found !== null && world.now() - found.builtAt <= layer.maxAgeMs && !layer.noCache
    if (isFresh) return found
    const turn = layer.noCache ? `${key} anew` : key
    const running = builds.get(turn)
    const isShared = running !== undefined && !running.isAborted
    const work = isShared ? running : start(world, layer, bases, { key, turn, isOld: found !== null })
    isHandedOver = !isShared
    // Somebody else's are the same.
    if (isShared) await layer.context?.[Symbol.asyncDispose]()
    const done = work.join(signal)
    done.catch(() => undefined) // told below
    yield* work.progress.follow(signal)
    return await done
  } finally {
    for (const release of held) release()
    if (!isHandedOver) await layer.context?.[Symbol.asyncDispose]()
  }
}

async function stored(world: ImageWorld, key: string): Promise<Built | null> {
  const build = await findBuild(world.store, key)
  const row = build && (await findImage(world.store, build.image_id))
  if (!build || !row || ![...digestsOf(row)].every(digest => world.images.blobs.has(digest))) return null
  return { image: await getImage(world, row.id), cached: true, builtAt: build.built_at }
}

interface Turn {
  readonly key: string
  /** Who shares the work: one who wants everything built again does not wait for somebody who does not. */
  readonly turn: string
  /** A result is there, and too old. */
  readonly isOld: boolean
}

function start(
  world: ImageWorld,
  layer: LayerBuild,
  bases: readonly Base[],
  { key, turn, isOld }: Turn,
): Flight<Built, BuildLog> {
  const { builds, held } = world.images
  const release = held.hold(bases.map(({ id }) => id))
  return builds.start(
    turn,
    () => new BuildLog(),
    async (log, signal) => {
      try {
        return await run(world, layer, bases, { key, isOld, log }, signal)
      } finally {
        release()
        await layer.context?.[Symbol.asyncDispose]()
      }
    },
  )
}

async function run(
  world: ImageWorld,
  { builder, name, plan, context, buildArgs, maxAgeMs, noCache }: LayerBuild,
  bases: readonly Base[],
  { key, isOld, log }: { key: string; isOld: boolean; log: BuildLog },
  signal: AbortSignal,
): Promise<Built> {
  const { build_timeout_seconds, build_network, build_memory_mb, build_cpu_cores } = world.config.images
  const shown = (text: string) => hideSecrets(text, buildArgs)
  if (world.images.buildSlots.isFull) log.add({ event: 'output', data: { text: 'waiting for other builds to end\n' } })
  const free = await world.images.buildSlots.acquire(signal)
  const deadline = AbortSignal.timeout(build_timeout_seconds * 1000)
  const limit = AbortSignal.any([signal, deadline])
  let last: { step: number; steps: number; instruction: string } | undefined
  const build: ImageBuild = {
    name,
    bases: bases.map(({ image }) => image),
    dockerfile: plan.dockerfile,
    context,
    dockerignore: context?.text('.dockerignore'),
    buildArgs,
    network: build_network,
    memoryMb: build_memory_mb,
    cpuCores: build_cpu_cores,
    maxCacheAgeMs: noCache || isOld ? null : maxAgeMs,
    // SECURITY: steps that knew a secret are not left in the engine.
    keepsCache: !Object.keys(buildArgs).some(looksSecret),
    onStep: step => {
      last = { ...step, instruction: shown(step.instruction) }
      log.add({ event: 'step', data: { ...step, instruction: shown(step.instruction) } })
    },
    onOutput: text => log.add({ event: 'output', data: { text: shown(text) } }),
  }
  try {
    const builtAt = world.now()
    const note = (id: string) => recordBuild(world.store, { key, image_id: id, built_at: builtAt })
    const take = { name, buildArgs, log, note }
    const image = await builder.buildImage(build, archive => takeBuilt(world, archive, take, limit), limit)
    world.log.info({ image: image.id, key }, 'image built')
    return { image, cached: false, builtAt }
  } catch (error) {
    signal.throwIfAborted()
    if (deadline.aborted) throw tooLong(name, last, build_timeout_seconds)
    throw hidden(error, shown)
  } finally {
    free()
  }
}

function tooLong(
  image: string,
  last: { step: number; steps: number; instruction: string } | undefined,
  seconds: number,
): SandglassError {
  const { step = null, steps = null, instruction = null } = last ?? {}
  const why = `the build took longer than ${seconds} seconds`
  const next = 'images.build_timeout_seconds in the configuration allows more'
  return new SandglassError('IMAGE_BUILD_FAILED', { image, step, steps, instruction, exit_code: null, why, output: [], next })
}

function hidden(error: unknown, shown: (text: string) => string): unknown {
  if (!(error instanceof SandglassError) || !error.is('IMAGE_BUILD_FAILED')) return error
  const { instruction, why, output, ...rest } = error.detail
  const detail = {
    ...rest,
    instruction: instruction === null ? null : shown(instruction),
    why: shown(why),
    output: output.map(shown),
  }
  return new SandglassError('IMAGE_BUILD_FAILED', detail, { cause: error.cause })
}
