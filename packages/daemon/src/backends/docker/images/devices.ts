// Refuses images with device files. The other backends skip them while unpacking; an engine creates them, and nothing restricts their use.
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/contract/tables'
import { openLayer } from '../../../layers/layer-tar.ts'
import { parseUnpackResult, type UnpackResult } from '../../../layers/unpack-result.ts'
import type { LayeredImage } from '../../backend.ts'

/**
 * SECURITY: a container could read the console of the engine's machine through a device file that everybody may open. Tar readers disagree about
 * malformed entries, so the layer is read by a reader in Go, like the engine's.
 */
export async function refuseDevices(image: LayeredImage, launcherPath: string, signal: AbortSignal): Promise<void> {
  for (const layer of image.layers) {
    const { ok, entry = '', issue = '' } = await firstDevice(image.reference, layer, launcherPath, signal)
    if (!ok) throw invalid(image, `a layer cannot be read: ${issue}`)
    if (entry !== '') throw invalid(image, `it has the device file ${JSON.stringify(entry)}, which docker would make`)
  }
}

async function firstDevice(
  image: string,
  { diffId, blob, compression }: LayeredImage['layers'][number],
  launcherPath: string,
  signal: AbortSignal,
): Promise<UnpackResult> {
  const child = spawn(launcherPath, ['devices'], { stdio: ['pipe', 'pipe', 'inherit'], signal, env: {} })
  const said = text(child.stdout)
  // The program stops reading at the first error, so the pipeline may fail before there is an answer.
  const [sent, answer] = await Promise.allSettled([
    pipeline(openLayer(blob, { image, diffId, compression }), child.stdin, { signal }),
    said,
  ])
  signal.throwIfAborted()
  if (answer.status === 'rejected') throw answer.reason
  const found = parseUnpackResult(answer.value)
  if (found === null) throw new Error(`launcher devices printed ${JSON.stringify(answer.value.slice(0, 200))}`)
  if (found.ok && sent.status === 'rejected') throw sent.reason
  return found
}

const invalid = (image: LayeredImage, issue: string) => new SandglassError('IMAGE_INVALID', { image: image.reference, issue })
