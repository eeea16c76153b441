// Builds one of the two layers of a build: found under its key, or made by the engine. Concurrent requests for one key share one build.
import { createHash } from 'node:crypto'
import { type Image, SandglassError } from '@sandglass/contract'
import type { ImageBuild } from '../../backends/image-builds.ts'
import type { Flight } from '../../lib/single-flight.ts'
import { findBuild, findImage, recordBuild } from '../../store/images.ts'
import type { ImageContext } from '../context.ts'
import { ARCHITECTURE } from '../manifest.ts'
import { digestsOf } from '../store/image-row.ts'
import { getImage } from '../store/stored-images.ts'
import { type Base, resolveBases } from './bases.ts'
import type { BuildContext } from './build-context.ts'
import { type BuildEvent, BuildLog } from './build-log.ts'
import type { Builder } from './builders.ts'
import type { Plan } from './dockerfile/plan.ts'
import { importBuilt } from './import-built.ts'
import { hideSecrets, looksSecret } from './secret-args.ts'
import type { BuildMachines } from './session/build-machine.ts'
import { buildInSandboxes } from './session/session-build.ts'

export interface LayerBuild {
  readonly builder: Builder
  /** For error messages. */
  readonly name: string
  readonly plan: Plan
  readonly buildContext: BuildContext | null
  /** Id of the project image, if this layer is an overlay on it. */
  readonly projectImage?: string
  readonly buildArgs: Readonly<Record<string, string>>
  readonly maxAgeMs: number
  readonly noCache: boolean
}

export interface Built {
  readonly image: Image
  readonly cached: boolean
  readonly builtAt: number
}

/** Which build a layer is. */
interface BuildIdentity {
  readonly key: string
  /** Requests share a build by this key. It differs for `noCache`: such a request must not join a build that uses the cache. */
  readonly flightKey: string
  /** A result exists, but it is too old. */
  readonly isOutdated: boolean
}

/** Disposes of the build context when the last user of it has ended. */
export async function* buildLayer(
  context: ImageContext,
  layer: LayerBuild,
  signal: AbortSignal,
): AsyncGenerator<BuildEvent, Built, undefined> {
  const { builds, pins } = context.images
  const { build_network: network } = context.config.images
  const unpins: (() => void)[] = []
  let isHandedOver = false
  try {
    const options = {
      maxAgeMs: layer.maxAgeMs,
      fetches: network === 'host',
      projectImage: layer.projectImage,
      pin: (id: string) => void unpins.push(pins.pin([id])),
    }
    const bases = yield* resolveBases(context, layer.plan.bases, options, signal)
    const key = layerKey(
      context,
      layer,
      bases.map(each => each.key),
    )
    const found = await findResult(context, key)
    const isFresh = found !== null && context.now() - found.builtAt <= layer.maxAgeMs && !layer.noCache
    if (isFresh) return found
    const flightKey = layer.noCache ? `${key} no-cache` : key
    const running = builds.get(flightKey)
    const isShared = running !== undefined && !running.isAborted
    const flight = isShared ? running : start(context, layer, bases, { key, flightKey, isOutdated: found !== null })
    isHandedOver = !isShared
    // The running build has a build context with the same content.
    if (isShared) await layer.buildContext?.[Symbol.asyncDispose]()
    const done = flight.join(signal)
    done.catch(() => undefined) // awaited below
    yield* flight.progress.follow(signal)
    return await done
  } finally {
    for (const unpin of unpins) unpin()
    if (!isHandedOver) await layer.buildContext?.[Symbol.asyncDispose]()
  }
}

/** The key of a build on these base images. */
export function layerKey(
  { config }: ImageContext,
  { plan, buildContext, buildArgs }: Pick<LayerBuild, 'plan' | 'buildContext' | 'buildArgs'>,
  baseIds: readonly string[],
): string {
  const contextDigest = buildContext?.digest ?? null
  return buildKey({ dockerfile: plan.dockerfile(baseIds), contextDigest, buildArgs, network: config.images.build_network })
}

interface KeyParts {
  /** With image ids in place of names. */
  readonly dockerfile: string
  /** Null for a build without files. */
  readonly contextDigest: string | null
  readonly buildArgs: Readonly<Record<string, string>>
  readonly network: string
}

/**
 * The cache key of a build: a digest of everything known in advance that decides its result.
 * SECURITY: arguments are hashed together with the rest, so that a stored key reveals nothing about them.
 */
function buildKey({ dockerfile, contextDigest, buildArgs, network }: KeyParts): string {
  const args = Object.entries(buildArgs).sort(([a], [b]) => (a < b ? -1 : 1))
  const parts = ['1', ARCHITECTURE, dockerfile, contextDigest, args, network]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

export async function findResult(context: ImageContext, key: string): Promise<Built | null> {
  const build = await findBuild(context.store, key)
  const row = build && (await findImage(context.store, build.image_id))
  if (!build || !row || ![...digestsOf(row)].every(digest => context.images.blobs.has(digest))) return null
  return { image: await getImage(context, row.id), cached: true, builtAt: build.built_at }
}

function start(
  context: ImageContext,
  layer: LayerBuild,
  bases: readonly Base[],
  identity: BuildIdentity,
): Flight<Built, BuildLog> {
  const { builds, pins } = context.images
  const unpin = pins.pin(bases.map(({ id }) => id))
  return builds.start(
    identity.flightKey,
    () => new BuildLog(),
    async (log, signal) => {
      try {
        return await run(context, layer, bases, identity, log, signal)
      } finally {
        unpin()
        await layer.buildContext?.[Symbol.asyncDispose]()
      }
    },
  )
}

async function run(
  context: ImageContext,
  { builder, name, plan, buildContext, buildArgs, maxAgeMs, noCache }: LayerBuild,
  bases: readonly Base[],
  { key, isOutdated }: BuildIdentity,
  log: BuildLog,
  signal: AbortSignal,
): Promise<Built> {
  const { build_timeout_seconds, build_network, build_memory_mb, build_cpu_cores } = context.config.images
  const redact = (text: string) => hideSecrets(text, buildArgs)
  if (context.images.buildSlots.isFull) log.add({ event: 'output', data: { text: 'waiting for other builds to end\n' } })
  const release = await context.images.buildSlots.acquire(signal)
  const deadline = AbortSignal.timeout(build_timeout_seconds * 1000)
  const limit = AbortSignal.any([signal, deadline])
  let last: { step: number; steps: number; instruction: string } | undefined
  const common = {
    name,
    buildArgs,
    maxCacheAgeMs: noCache || isOutdated ? null : maxAgeMs,
    // SECURITY: steps that used a secret are not kept in the engine's cache.
    keepsCache: !Object.keys(buildArgs).some(looksSecret),
    onStep: (step: Parameters<ImageBuild['onStep']>[0]) => {
      last = { ...step, instruction: redact(step.instruction) }
      log.add({ event: 'step', data: { ...step, instruction: redact(step.instruction) } })
    },
    onOutput: (text: string) => void log.add({ event: 'output', data: { text: redact(text) } }),
  }
  try {
    const builtAt = context.now()
    const record = (id: string) => recordBuild(context.store, { key, image_id: id, built_at: builtAt })
    if (builder.why !== null) common.onOutput(`${builder.why}\n`)
    const inSandboxes = (machines: BuildMachines) =>
      buildInSandboxes(context, machines, { ...common, plan, bases, buildContext, record }, limit)
    const onEngine = (backend: Extract<Builder, { kind: 'docker' }>['backend']) => {
      const build: ImageBuild = {
        ...common,
        bases: bases.map(({ image }) => image),
        dockerfile: plan.dockerfile,
        context: buildContext,
        dockerignore: buildContext?.text('.dockerignore'),
        network: build_network,
        memoryMb: build_memory_mb,
        cpuCores: build_cpu_cores,
      }
      const built = { name, buildArgs, log, record }
      return backend.buildImage(build, archive => importBuilt(context, archive, built, limit), limit)
    }
    const image = await (builder.kind === 'docker' ? onEngine(builder.backend) : inSandboxes(builder.machines))
    context.log.info({ image: image.id, key }, 'image built')
    return { image, cached: false, builtAt }
  } catch (error) {
    signal.throwIfAborted()
    if (deadline.aborted) throw timedOut(name, last, build_timeout_seconds)
    throw redacted(error, redact)
  } finally {
    release()
  }
}

function timedOut(
  image: string,
  last: { step: number; steps: number; instruction: string } | undefined,
  seconds: number,
): SandglassError {
  const { step = null, steps = null, instruction = null } = last ?? {}
  const why = `the build took longer than ${seconds} seconds`
  const next = 'raise images.build_timeout_seconds in the configuration'
  return new SandglassError('IMAGE_BUILD_FAILED', { image, step, steps, instruction, exit_code: null, why, output: [], next })
}

function redacted(error: unknown, redact: (text: string) => string): unknown {
  if (!(error instanceof SandglassError) || !error.is('IMAGE_BUILD_FAILED')) return error
  const { instruction, why, output, ...rest } = error.detail
  const detail = {
    ...rest,
    instruction: instruction === null ? null : redact(instruction),
    why: redact(why),
    output: output.map(redact),
  }
  return new SandglassError('IMAGE_BUILD_FAILED', detail, { cause: error.cause })
}
