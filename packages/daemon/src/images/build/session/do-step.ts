// One step after FROM and ARG: a setting, files, or a program. A step that changes files is looked up under its key first.
import type { Readable } from 'node:stream'
import type { LayeredImage } from '../../../backends/backend.ts'
import type { LayerMaker } from '../../../backends/image-builds.ts'
import type { ImageContext } from '../../context.ts'
import type { LayerRecord } from '../../store/image-row.ts'
import type { BuildMachines } from './build-machine.ts'
import { contextKey, copyFromContext, copyFromImage, readCopying } from './copy/copy-step.ts'
import { folderLayer } from './copy/folder-layer.ts'
import { runStep } from './run-step.ts'
import type { SessionBuild, Stages } from './session-build.ts'
import { applySetting } from './settings.ts'
import { type Stage, stageId } from './stage.ts'
import { findStep, recordStep, stepKey } from './step-cache.ts'
import { StepFailure } from './step-failure.ts'
import type { StepOutput } from './step-output.ts'
import type { CopyStep, Step } from './steps.ts'
import { layerLimits, storeLayer } from './store-layer.ts'

export interface StepContext {
  readonly context: ImageContext
  readonly machines: BuildMachines
  readonly layers: LayerMaker
  readonly build: SessionBuild
  /** Keeps digests in the store until the build ends. */
  readonly pin: (...digests: string[]) => void
  readonly signal: AbortSignal
}

export interface Images {
  image(stage: Stage): LayeredImage
  readonly from: Stages
}

type Work = StepContext & { readonly output: StepOutput }
type Done = { readonly stage: Stage; readonly isCached: boolean }

export async function doStep(work: Work, stage: Stage, step: Step, images: Images): Promise<Done> {
  const { plan } = work.build
  const source = { name: plan.name, escapeCharacter: plan.escapeCharacter }
  switch (step.kind) {
    case 'setting': {
      const after = applySetting(source, stage, step.word, step.instruction)
      const { WorkingDir } = after.settings
      if (step.word !== 'WORKDIR' || WorkingDir === undefined) return { stage: after, isCached: false }
      const tar = await using(work, images.image(stage), image => folderLayer(work.layers, image, WorkingDir, work.signal))
      return { stage: tar === null ? after : withLayer(after, await store(work, stage, tar)), isCached: false }
    }
    case 'run': {
      const { build_network, build_policies } = work.context.config.images
      const network = build_network === 'none' ? 'none' : build_policies
      const key = stepKey([stageId(stage), 'RUN', step.exec ?? step.line, [...stage.args].sort(), network])
      return await cached(work, stage, key, () =>
        using(work, images.image(stage), image => {
          const limits = layerLimits(work.context, work.build.name, stage.layers)
          return runStep({ ...work, image, stage }, step.line, limits, tar => store(work, stage, tar))
        }),
      )
    }
    case 'copy':
      return await copy(work, stage, step.copy, images, readCopying(source, stage, step.copy))
    default:
      throw new StepFailure(`${step.instruction.word} is not expected here`)
  }
}

async function copy(
  work: Work,
  stage: Stage,
  step: CopyStep,
  images: Images,
  copying: ReturnType<typeof readCopying>,
): Promise<Done> {
  const { build, context, layers, signal } = work
  const from = step.from === null ? null : await images.from.find(step.from)
  const { buildContext } = build
  if (from === null && buildContext === null) throw new StepFailure('there are no files to copy: an overlay has no build context')
  const files = from !== null ? stageId(from) : buildContext === null ? '' : contextKey(buildContext, copying)
  const key = stepKey([stageId(stage), 'COPY', copying, files])
  return await cached(work, stage, key, () =>
    using(work, images.image(stage), async image => {
      const below = { layers, image, signal }
      const limits = layerLimits(context, build.name, stage.layers)
      if (from !== null)
        return await using(work, images.image(from), async other =>
          store(work, stage, await copyFromImage(below, other, copying, limits)),
        )
      if (buildContext === null) return null
      return await store(work, stage, await copyFromContext(below, buildContext, copying))
    }),
  )
}

async function cached(work: Work, stage: Stage, key: string, run: () => Promise<LayerRecord | null>): Promise<Done> {
  const { context, build, pin } = work
  const found = await findStep(context, key, build.maxCacheAgeMs)
  if (found) {
    pin(...found.flatMap(({ digest, diff_id }) => [digest, diff_id]))
    return { stage: { ...stage, layers: found }, isCached: true }
  }
  const after = withLayer(stage, await run())
  // SECURITY: a step that had a secret is not kept.
  if (build.keepsCache) await recordStep(context, key, after)
  return { stage: after, isCached: false }
}

const withLayer = (stage: Stage, layer: LayerRecord | null): Stage =>
  layer === null ? stage : { ...stage, layers: [...stage.layers, layer] }

const store = ({ context, build, pin, signal }: Work, stage: Stage, tar: Readable): Promise<LayerRecord | null> =>
  storeLayer(context, build.name, tar, layerLimits(context, build.name, stage.layers), pin, signal)

/** Keeps what backends make of the image from being pruned while `use` runs. */
async function using<T>({ context }: Work, image: LayeredImage, use: (image: LayeredImage) => Promise<T>): Promise<T> {
  context.images.building.add(image)
  try {
    return await use(image)
  } finally {
    context.images.building.delete(image)
  }
}
