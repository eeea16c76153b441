// Refuses images with device files. The other backends skip them while unpacking; an engine creates them, and nothing restricts their use.
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/contract/tables'
import { z } from 'zod'
import { openLayer } from '../../../layers/layer-tar.ts'
import type { LayeredImage } from '../../backend.ts'

/** The output of `runner devices` for a layer. */
const Found = z.object({ ok: z.boolean(), entry: z.string().default(''), issue: z.string().default('') })

/**
 * SECURITY: a container could read the console of the engine's machine through a device file that everybody may open. Tar readers disagree about
 * malformed entries, so the layer is read by a reader in Go, like the engine's.
 */
export async function refuseDevices(image: LayeredImage, runnerPath: string, signal: AbortSignal): Promise<void> {
  for (const layer of image.layers) {
    const { ok, entry, issue } = await firstDevice(image.reference, layer, runnerPath, signal)
    if (!ok) throw invalid(image, `a layer cannot be read: ${issue}`)
    if (entry !== '') throw invalid(image, `it has the device file ${JSON.stringify(entry)}, which docker would make`)
  }
}

async function firstDevice(
  image: string,
  { diffId, blob, compression }: LayeredImage['layers'][number],
  runnerPath: string,
  signal: AbortSignal,
): Promise<z.infer<typeof Found>> {
  const child = spawn(runnerPath, ['devices'], { stdio: ['pipe', 'pipe', 'inherit'], signal, env: {} })
  const said = text(child.stdout)
  // The program stops reading at the first error, so the pipeline may fail before there is an answer.
  const [sent, answer] = await Promise.allSettled([
    pipeline(openLayer(blob, { image, diffId, compression }), child.stdin, { signal }),
    said,
  ])
  signal.throwIfAborted()
  if (answer.status === 'rejected') throw answer.reason
  const found = Found.safeParse(parsed(answer.value)).data
  if (found === undefined) throw new Error(`runner devices said ${JSON.stringify(answer.value.slice(0, 200))}`)
  if (found.ok && sent.status === 'rejected') throw sent.reason
  return found
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

const invalid = (image: LayeredImage, issue: string) => new SandglassError('IMAGE_INVALID', { image: image.reference, issue })
