// RUN: starts a sandbox from the image so far, runs the program as the image's user, and takes the changes of its root filesystem as a layer.
import { RUNNER_PATH, SandglassError } from '@sandglass/contract'
import type { LayeredImage } from '../../../backends/backend.ts'
import type { LayerLimits, LayerMaker } from '../../../backends/image-builds.ts'
import type { BuildMachines } from './build-machine.ts'
import { ImageTree } from './copy/image-tree.ts'
import { command } from './settings.ts'
import { envOfStage, type Stage } from './stage.ts'
import { StepFailure } from './step-failure.ts'
import type { StepOutput } from './step-output.ts'
import { type ImageUser, userOf } from './users.ts'

export interface RunContext {
  readonly machines: BuildMachines
  readonly layers: LayerMaker
  readonly image: LayeredImage
  readonly stage: Stage
  readonly output: StepOutput
  readonly signal: AbortSignal
}

const ROOT: ImageUser = { uid: 0, gid: 0, groups: [], home: '/root' }

/** `store` gets the layer while its disk still exists. */
export async function runStep<T>(
  context: RunContext,
  rest: string,
  limits: LayerLimits,
  store: (tar: Awaited<ReturnType<LayerMaker['changes']>>) => Promise<T>,
): Promise<T> {
  const { stage, layers, output, signal } = context
  const user = await stepUser(context)
  const machine = await context.machines.start(context.image, signal)
  try {
    const argv = asUser(user, command(stage, rest))
    const program = { argv, cwd: stage.settings.WorkingDir || '/', env: environment(stage, user) }
    const exitCode = await machine
      .run(program, bytes => output.add(bytes), signal)
      .catch(async error => {
        throw await startFailure(error, () => machine.limitHit())
      })
    output.end()
    if (exitCode !== 0) {
      const limit = await machine.limitHit()
      throw new StepFailure(`exit code ${exitCode}`, limit === null ? undefined : `the step failed because ${limit}`, exitCode)
    }
    await machine.stop()
    return await store(await layers.changes(machine.id, machine.trust, limits, signal))
  } finally {
    await machine.destroy()
  }
}

/** The image's variables take precedence over arguments, as in Docker. */
function environment(stage: Stage, user: ImageUser): Record<string, string> {
  return { HOME: user.home, USER: '', LOGNAME: '', ...Object.fromEntries(stage.args), ...Object.fromEntries(envOfStage(stage)) }
}

/** The runner becomes the program with the ids of the user, and sends all output to one stream. */
function asUser({ uid, gid, groups }: ImageUser, argv: readonly string[]): readonly string[] {
  return [RUNNER_PATH, 'as', String(uid), [gid, ...groups].join(','), ...argv]
}

async function stepUser({ stage, layers, image, signal }: RunContext): Promise<ImageUser> {
  const { User } = stage.settings
  if (!User || /^(root|0)(:(root|0))?$/.test(User)) return ROOT
  const tree = new ImageTree(paths => layers.find(image, paths, signal))
  await tree.load(['/etc/passwd', '/etc/group'])
  const found = userOf({ passwd: tree.content('/etc/passwd'), group: tree.content('/etc/group') }, User)
  if (typeof found === 'string') throw new StepFailure(found, 'create it with RUN useradd, or use its number')
  return found
}

/** A program that does not exist, a folder that does not exist, or a sandbox whose first process was killed. */
async function startFailure(error: unknown, limitHit: () => Promise<string | null>): Promise<unknown> {
  if (!(error instanceof SandglassError)) return error
  if (error.is('FILE_NOT_FOUND') || error.is('NOT_A_DIRECTORY') || error.is('PERMISSION_DENIED') || error.is('INVALID_REQUEST'))
    return new StepFailure(error.message, undefined, null, { cause: error })
  if (!error.is('RUNNER_LOST')) return error
  const limit = await limitHit().catch(() => null) // a machine that is gone does not say which limit it reached
  return new StepFailure(limit ?? 'the sandbox of the step ended', undefined, null, { cause: error })
}
