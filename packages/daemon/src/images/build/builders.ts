// What runs the steps of a build: a Docker engine, or sandboxes of Sandglass. `auto` takes the engine if one answers.
import { SandglassError } from '@sandglass/contract'
import type { Backend } from '../../backends/backend.ts'
import type { ImageContext } from '../context.ts'
import type { BuildMachines } from './session/build-machine.ts'

type EngineBackend = Backend & Required<Pick<Backend, 'buildImage'>>

export type Builder =
  | { readonly kind: 'docker'; readonly backend: EngineBackend; readonly why: string | null }
  | { readonly kind: 'session'; readonly machines: BuildMachines; readonly why: string | null }

export type BuilderName = 'auto' | 'session' | 'docker'

/** `why` is a line for the user if the choice was not the user's own. Throws BACKEND_UNAVAILABLE or UNSUPPORTED. */
export async function chooseBuilder(context: ImageContext, wanted: BuilderName): Promise<Builder> {
  if (wanted === 'session') return await sandboxes(context, null)
  const engine = await findEngine(context)
  if ('backend' in engine) return { kind: 'docker', backend: engine.backend, why: null }
  const unavailable = new SandglassError('BACKEND_UNAVAILABLE', {
    backend: 'docker',
    why: `building images needs a Docker engine: ${engine.why}`,
  })
  if (wanted === 'docker') throw unavailable
  try {
    return await sandboxes(context, 'no Docker engine answers: the steps run in sandboxes')
  } catch (error) {
    // Either would do. The engine is what most hosts lack.
    throw error instanceof SandglassError && error.is('BACKEND_UNAVAILABLE') ? unavailable : error
  }
}

async function sandboxes({ buildMachines }: ImageContext, why: string | null): Promise<Builder> {
  if (!buildMachines)
    throw new SandglassError('BACKEND_UNAVAILABLE', {
      backend: 'oci',
      why: 'build steps need sandboxes, and no backend here has them',
    })
  await buildMachines.layers()
  return { kind: 'session', machines: buildMachines, why }
}

async function findEngine({ backends }: ImageContext): Promise<{ backend: EngineBackend } | { why: string }> {
  let why = 'no backend here has one'
  for (const backend of backends.values()) {
    if (!backend.buildImage) continue
    const probe = await backend.probe()
    if (probe.available) return { backend: backend as EngineBackend }
    why = `${probe.why}; ${probe.fix}`
  }
  return { why }
}
