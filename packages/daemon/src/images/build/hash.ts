// POST /v1/images/hash: the key that a build of the same files has. Nothing is pulled or built.
import type { Readable } from 'node:stream'
import { type BuildHash, type HashQuery, SandglassError } from '@sandglass/contract'
import type { ImageContext } from '../context.ts'
import { requireAllowed } from '../reference.ts'
import { findStored } from '../store/stored-images.ts'
import { receiveContext } from './build-context.ts'
import { findResult, layerKey } from './build-layer.ts'
import { parseDockerfile } from './dockerfile/dockerfile.ts'
import { planBuild } from './dockerfile/plan.ts'
import { HOST, hostKey } from './host-base.ts'
import { shownAs, textOf } from './named-files.ts'

export type HashRequest = HashQuery & { readonly build_args: Readonly<Record<string, string>> }

export async function hashBuild(
  context: ImageContext,
  body: Readable,
  { dockerfile = 'Dockerfile', target, build_args }: HashRequest,
  signal: AbortSignal,
): Promise<BuildHash> {
  const name = shownAs(dockerfile, 'Dockerfile')
  await using buildContext = await receiveContext(context, name, body, [dockerfile], signal)
  const fetches = context.config.images.build_network === 'host'
  const parsed = parseDockerfile(name, textOf(buildContext, dockerfile))
  const plan = planBuild(parsed, { name, buildArgs: build_args, fetches, target })
  const ids: string[] = []
  for (const reference of plan.bases) ids.push(await storedBase(context, reference))
  const hash = layerKey(context, { plan, buildContext, buildArgs: build_args }, ids)
  const found = await findResult(context, hash)
  return { hash, image_id: found?.image.id ?? null, built_at: found ? new Date(found.builtAt).toISOString() : null }
}

async function storedBase(context: ImageContext, reference: string): Promise<string> {
  if (reference === HOST) {
    requireAllowed(context.config, HOST)
    return await hostKey(context)
  }
  const stored = await findStored(context.store, reference)
  requireAllowed(context.config, reference, stored ? [stored.id] : [])
  if (stored) return stored.id
  throw new SandglassError('IMAGE_NOT_FOUND', {
    image: reference,
    next: `the hash depends on the base image: sandglass image pull ${reference}`,
  })
}
