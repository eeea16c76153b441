// Builds an image without a Docker engine: RUN steps run in sandboxes, and every step that changes files adds a layer. session/ has the steps, one
// file each; this file goes through the instructions and keeps the stages.
import { type Image, SandglassError } from '@sandglass/contract'
import type { LayeredImage } from '../../../backends/backend.ts'
import { findImage } from '../../../store/images.ts'
import type { ImageContext } from '../../context.ts'
import { digestOf, envOf, type ImageConfig, parseConfig } from '../../manifest.ts'
import { layersOf } from '../../store/image-row.ts'
import { insertImage } from '../../store/insert.ts'
import type { Base } from '../bases.ts'
import type { BuildContext } from '../build-context.ts'
import { argsIn, expand, PREDEFINED_ARGS } from '../dockerfile/expand.ts'
import { type Plan, readFrom } from '../dockerfile/plan.ts'
import { oneWord } from '../dockerfile/words.ts'
import type { BuildMachines } from './build-machine.ts'
import { doStep, type StepContext } from './do-step.ts'
import { configOf, emptyStage, type Settings, type Stage, stageId, valuesOf } from './stage.ts'
import { imageOf } from './step-cache.ts'
import { StepFailure } from './step-failure.ts'
import { StepOutput } from './step-output.ts'
import { readSteps, type Step } from './steps.ts'

export interface SessionBuild {
  readonly name: string
  readonly plan: Plan
  readonly bases: readonly Base[]
  readonly buildContext: BuildContext | null
  readonly buildArgs: Readonly<Record<string, string>>
  /** Results of steps up to this age are used; null uses none. */
  readonly maxCacheAgeMs: number | null
  readonly keepsCache: boolean
  readonly onStep: (step: { step: number; steps: number; instruction: string; cached: boolean }) => void
  readonly onOutput: (text: string) => void
  /** Records the image under the key of the build. */
  readonly record: (id: string) => Promise<void>
}

/** Throws INVALID_REQUEST for an instruction that is not supported. */
export const checkSupported = ({ name, instructions }: Plan): void => void readSteps(name, instructions)

export async function buildInSandboxes(
  context: ImageContext,
  machines: BuildMachines,
  build: SessionBuild,
  signal: AbortSignal,
): Promise<Image> {
  const pins: (() => void)[] = []
  const pin = (...digests: string[]) => void pins.push(context.images.pins.pin(digests))
  const { name, plan } = build
  const steps = readSteps(plan.name, plan.instructions)
  const work: StepContext = { context, machines, layers: await machines.layers(), build, pin, signal }
  const stages = new Stages(context, build)
  try {
    for (const [at, step] of steps.entries()) {
      const shown = { step: at + 1, steps: steps.length, instruction: `${step.instruction.word} ${step.instruction.rest}` }
      const output = new StepOutput(build.onOutput)
      build.onStep({ ...shown, cached: false })
      try {
        signal.throwIfAborted()
        const { stage, isCached } = await stages.apply(step, stage =>
          doStep({ ...work, output }, stage, step, { image: each => imageFor(context, name, each), from: stages }),
        )
        stages.current = stage
        if (isCached) build.onStep({ ...shown, cached: true })
      } catch (error) {
        throw asFailure(error, build.name, { ...shown, line: step.instruction.line }, output.last)
      }
    }
    return await storeResult(context, build, stages.current, pin)
  } finally {
    for (const unpin of pins) unpin()
  }
}

/** The stages of a Dockerfile, by name and number, and the arguments before the first one. */
export class Stages {
  readonly #context: ImageContext
  readonly #build: SessionBuild
  readonly #done: { readonly name: string; readonly stage: Stage }[] = []
  readonly #global = new Map(Object.entries(PREDEFINED_ARGS))
  #name: string | null = null
  current: Stage = emptyStage()

  constructor(context: ImageContext, build: SessionBuild) {
    this.#context = context
    this.#build = build
  }

  async apply(
    step: Step,
    other: (stage: Stage) => Promise<{ stage: Stage; isCached: boolean }>,
  ): Promise<{ stage: Stage; isCached: boolean }> {
    if (step.kind === 'from') return { stage: await this.#begin(step), isCached: false }
    if (step.kind === 'arg') return { stage: this.#argument(step), isCached: false }
    return await other(this.current)
  }

  /** An earlier stage, or an image of the plan. */
  async find(reference: string): Promise<Stage> {
    const at = this.#done.findLastIndex(({ name }) => name !== '' && name === reference.toLowerCase())
    const found = this.#done[at] ?? (/^\d+$/.test(reference) ? this.#done[Number(reference)] : undefined)
    return found?.stage ?? (await this.#base(reference))
  }

  async #begin({ instruction }: Step): Promise<Stage> {
    if (this.#name !== null) this.#done.push({ name: this.#name, stage: this.current })
    const { image, stage } = readFrom(this.#build.plan.name, instruction, this.#global)
    this.#name = (stage ?? '').toLowerCase()
    const from = image === 'scratch' ? emptyStage() : await this.find(image)
    return { ...from, args: new Map(), hasOwnCmd: false }
  }

  #argument({ instruction }: Step): Stage {
    const isGlobal = this.#name === null
    const values = isGlobal ? this.#global : valuesOf(this.current)
    const args = new Map(this.current.args)
    for (const { name, value } of argsIn(instruction.rest)) {
      const fallback = isGlobal
        ? value && expand(value, values)
        : value && oneWord(value, values, this.#build.plan.escapeCharacter)
      const given = this.#build.buildArgs[name] ?? fallback ?? (isGlobal ? undefined : this.#global.get(name))
      if (given === undefined) continue
      if (isGlobal) this.#global.set(name, given)
      else args.set(name, given)
    }
    return { ...this.current, args }
  }

  async #base(reference: string): Promise<Stage> {
    const base = this.#build.bases.find(each => each.reference === reference)
    const row = base && (await findImage(this.#context.store, base.id))
    const config = base && (await this.#context.images.blobs.read(base.id))
    if (!row || !config) throw new SandglassError('IMAGE_NOT_FOUND', { image: reference })
    const settings = ((JSON.parse(config.toString('utf8')) as ImageConfig).config ?? {}) as Settings
    if (Array.isArray(settings.OnBuild) && settings.OnBuild.length > 0)
      throw new StepFailure(`${reference} has ONBUILD instructions, which are not supported`, 'start from another image')
    return { layers: layersOf(row), settings, args: new Map(), hasOwnCmd: false }
  }
}

/** A stage as an image that a machine can start from. It is not in the store. */
function imageFor({ images }: ImageContext, name: string, stage: Stage): LayeredImage {
  const id = stageId(stage)
  return {
    kind: 'layers',
    reference: name,
    id,
    config: images.blobs.path(id),
    layers: stage.layers.map(({ digest, diff_id, compression }) => ({
      diffId: diff_id,
      blob: images.blobs.path(digest),
      compression,
    })),
    env: envOf({ config: stage.settings } as ImageConfig),
  }
}

async function storeResult(
  context: ImageContext,
  { name, record }: SessionBuild,
  stage: Stage,
  pin: (digest: string) => void,
): Promise<Image> {
  const config = configOf(stage)
  parseConfig(name, config, stage.layers.length)
  pin(digestOf(config))
  const image = await insertImage(context, { ...imageOf(config, stage), source: 'build', references: [] })
  await record(image.id)
  return image
}

function asFailure(
  error: unknown,
  image: string,
  step: { step: number; steps: number; instruction: string; line: number },
  output: readonly string[],
): unknown {
  if (error instanceof SandglassError && error.is('IMAGE_INVALID'))
    return failed({ image, ...step, exit_code: null, why: error.detail.issue, output: [...output] }, error)
  if (!(error instanceof StepFailure)) return error
  const { message, exitCode, next } = error
  const detail = { image, ...step, exit_code: exitCode, why: message, output: [...output] }
  return failed(next === undefined ? detail : { ...detail, next }, error)
}

const failed = (detail: ConstructorParameters<typeof SandglassError<'IMAGE_BUILD_FAILED'>>[1], cause: unknown) =>
  new SandglassError('IMAGE_BUILD_FAILED', detail, { cause })
