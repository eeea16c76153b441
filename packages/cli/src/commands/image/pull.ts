// `sandglass image pull`, and the pull before a session is created.
import { type ImageInfo, type SandboxClient, SandglassError } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { printable } from '../../output/printable.ts'
import { toJson } from '../../output/show-session.ts'
import { oneArgument } from '../../parser/parse.ts'
import { LayerLines } from './layer-lines.ts'
import { shortId } from './short-name.ts'

export async function run(input: Input, context: Context): Promise<number> {
  const reference = oneArgument(input, 'REFERENCE')
  const image = await pull(await context.connect(), reference, context)
  context.print(context.json ? toJson(image) : `${printable(reference)}  ${shortId(image.id)}\n`)
  return 0
}

/** Pulls an image if the store does not have it, so that the user sees its progress before the session is created. */
export async function pullIfMissing(client: SandboxClient, reference: string, context: Context): Promise<void> {
  if (reference === 'host') return
  try {
    await client.images.get(reference)
  } catch (error) {
    if (!(error instanceof SandglassError) || !error.is('IMAGE_NOT_FOUND')) throw error
    await pull(client, reference, context)
  }
}

/** Shows one progress line per layer on a terminal. */
async function pull(client: SandboxClient, reference: string, { quiet, json }: Context): Promise<ImageInfo> {
  using lines = new LayerLines({ quiet: quiet || json })
  return await client.images.pull(reference, { onProgress: layer => lines.show(layer) })
}
