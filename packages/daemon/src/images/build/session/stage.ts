// A stage of a build: the layers and the settings of the image so far, and the values of its arguments.
import { DEFAULT_PATH } from '@sandglass/contract'
import { ARCHITECTURE, digestOf } from '../../manifest.ts'
import type { LayerRecord } from '../../store/image-row.ts'

/** The `config` of an image's configuration. Fields that a build does not change stay as the base image has them. */
export type Settings = {
  Env?: readonly string[]
  Cmd?: readonly string[]
  Entrypoint?: readonly string[]
  User?: string
  WorkingDir?: string
  Labels?: Readonly<Record<string, string>>
  ExposedPorts?: Readonly<Record<string, object>>
  Volumes?: Readonly<Record<string, object>>
  StopSignal?: string
  Shell?: readonly string[]
  readonly [field: string]: unknown
}

export interface Stage {
  readonly layers: readonly LayerRecord[]
  readonly settings: Settings
  /** Values of ARG in this stage. */
  readonly args: ReadonlyMap<string, string>
  /** True once CMD was set in this stage: an ENTRYPOINT before it removes the CMD of the base image. */
  readonly hasOwnCmd: boolean
}

export const DEFAULT_SHELL = ['/bin/sh', '-c']

export const emptyStage = (): Stage => ({
  layers: [],
  settings: { Env: [`PATH=${DEFAULT_PATH}`] },
  args: new Map(),
  hasOwnCmd: false,
})

/** The image's configuration. It has no time, so that the same content has the same id. */
export function configOf({ layers, settings }: Pick<Stage, 'layers' | 'settings'>): Buffer {
  const kept = Object.entries(settings).filter(([, value]) => value !== undefined && value !== null)
  return Buffer.from(
    JSON.stringify({
      architecture: ARCHITECTURE,
      os: 'linux',
      config: Object.fromEntries(kept.sort(([a], [b]) => (a < b ? -1 : 1))),
      rootfs: { type: 'layers', diff_ids: layers.map(({ diff_id }) => diff_id) },
    }),
  )
}

export const stageId = (stage: Stage): string => digestOf(configOf(stage))

export function envOfStage({ settings }: Stage): Map<string, string> {
  return new Map(
    (settings.Env ?? []).map(line => {
      const at = line.indexOf('=')
      return at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 1)]
    }),
  )
}

/** The values of $NAME in an instruction. A variable of the image takes precedence over an argument. */
export const valuesOf = (stage: Stage): Map<string, string> => new Map([...stage.args, ...envOfStage(stage)])
