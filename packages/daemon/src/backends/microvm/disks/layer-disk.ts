// The disks of a stored image: one with each layer in its own folder, and one with the overlay layer. The guest mounts them as one root.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { LIMITS, SandglassError } from '@sandglass/contract/tables'
import { openLayer } from '../../../layers/layer-tar.ts'
import { parseUnpackResult } from '../../../layers/unpack-result.ts'
import { renameDurably } from '../../../lib/durable-rename.ts'
import type { LayeredImage, TrustedCa } from '../../backend.ts'
import { unsupported } from '../../machine/refusals.ts'
import { findInLayers } from '../../rootfs/find-in-layers.ts'
import { OVERLAY_LAYERS, prepareOverlayLayer } from '../../rootfs/overlay-layer.ts'
import type { ImageDisk } from './image-disks.ts'
import { COMPRESSION, inMib, makeSquashfs, REPORT_MS, type SquashfsTools } from './squashfs.ts'

export interface LayerDiskTools extends SquashfsTools {
  /** Null if squashfs-tools is older than 4.5. */
  readonly sqfstar: string | null
  readonly launcherPath: string
}

const SQFSTAR_OPTIONS = ['-no-progress', '-quiet', '-root-mode', '755', '-mem', '512M']
/** Limit per layer: the limit of a whole image. */
const MAX_ENTRIES = String(LIMITS.image_entries.max)
/** Limit of `launcher restack` on the bytes of names in a layer. */
const MAX_NAME_BYTES = 64 * 1024 * 1024
/** The end marker of a tar: two blocks of zeros. */
const TAR_END = Buffer.alloc(1024)

export async function prepareLayerDisks(
  tools: LayerDiskTools,
  dirs: { readonly images: string; readonly disks: string },
  image: LayeredImage,
  trust: TrustedCa | null,
  signal: AbortSignal,
  report: (step: string) => void,
): Promise<ImageDisk> {
  const folder = join(dirs.images, OVERLAY_LAYERS)
  const { name, user } = await prepareOverlayLayer(folder, image, trust, async paths => {
    report(`reading ${image.reference}`)
    return await findInLayers(image, paths, signal)
  })
  const [overlay, own] = [`${name}.sqfs`, imageFile(image.id)]
  const entries = (await readdir(join(folder, name))).map(entry => join(folder, name, entry))
  await makeSquashfs(tools, entries, join(dirs.disks, overlay), [], signal)
  // An image without layers has only the overlay layer.
  if (image.layers.length === 0) return { image: overlay, overlay, layers: 0, user }
  const target = join(dirs.disks, own)
  if (!existsSync(target)) {
    report(`making a disk of ${image.reference}`)
    await build(tools, image, target, signal, report)
  }
  return { image: own, overlay, layers: image.layers.length, user }
}

export const imageFile = (id: string): string => `image-${id.replace(/^sha256:/, '').slice(0, 32)}.sqfs`

async function build(
  tools: LayerDiskTools,
  image: LayeredImage,
  target: string,
  signal: AbortSignal,
  report: (step: string) => void,
): Promise<void> {
  const { sqfstar } = tools
  if (sqfstar === null)
    throw unsupported(
      'images in a microvm: sqfstar of squashfs-tools 4.5 or later is not installed',
      'install it, or use --backend oci or --backend docker',
    )
  await mkdir(join(target, '..'), { recursive: true, mode: 0o700 })
  const scratch = await mkdtemp(`${target}.${process.pid}.`)
  try {
    const building = join(scratch, 'disk')
    await tools.space.write(`a disk of ${image.reference}`, full =>
      write({ ...tools, sqfstar }, image, scratch, building, AbortSignal.any([signal, full]), report),
    )
    await chmod(building, 0o644)
    await renameDurably(building, target)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

async function write(
  tools: LayerDiskTools & { readonly sqfstar: string },
  image: LayeredImage,
  scratch: string,
  building: string,
  signal: AbortSignal,
  report: (step: string) => void,
): Promise<void> {
  const args = [...SQFSTAR_OPTIONS, ...COMPRESSION, building]
  const env = { PATH: '/usr/bin:/bin' }
  const child = spawn(tools.sqfstar, args, { stdio: ['pipe', 'ignore', 'pipe'], signal, killSignal: 'SIGKILL', env })
  const made = succeeded(child, 'sqfstar')
  made.catch(() => undefined) // awaited below, unless a layer fails first
  for (const [i, layer] of image.layers.entries()) {
    const plan = join(scratch, 'plan')
    let total = 0
    const count = (bytes: number) => {
      total += bytes
    }
    await restack(tools, image, layer, ['--plan', plan, '--max-entries', MAX_ENTRIES], 'ignore', count, signal)
    const onBytes = progressOf(`making a disk of ${image.reference}: layer ${i + 1} of ${image.layers.length}`, total, report)
    await restack(tools, image, layer, ['--folder', String(i), '--with', plan], child.stdin, onBytes, signal)
  }
  child.stdin.end(TAR_END)
  await made
}

/** Reports now and then how much of a layer has been read. */
function progressOf(what: string, total: number, report: (step: string) => void): (bytes: number) => void {
  let [done, next] = [0, Date.now() + REPORT_MS]
  return bytes => {
    done += bytes
    if (Date.now() < next) return
    next = Date.now() + REPORT_MS
    report(`${what}, ${inMib(done)} of ${inMib(total)} MiB`)
  }
}

/** Pipes the layer through `launcher restack` into `output`. */
async function restack(
  tools: LayerDiskTools,
  image: LayeredImage,
  { diffId, blob, compression }: LayeredImage['layers'][number],
  args: readonly string[],
  output: Writable | 'ignore',
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<void> {
  const child = spawn(tools.launcherPath, ['restack', ...args], { stdio: ['pipe', output, 'pipe'], signal, env: {} })
  const done = restacked(child, image)
  done.catch(() => undefined) // awaited below, unless the layer is invalid
  const sent = pipeline(openLayer(blob, { image: image.reference, diffId, compression, onBytes }), child.stdin ?? process.stderr)
  try {
    await sent
  } catch (error) {
    if (error instanceof SandglassError) throw error
    await done // throws the reason why restack stopped reading
    throw error
  }
  await done
}

async function restacked(child: ChildProcess, image: LayeredImage): Promise<void> {
  const [code, stderr] = await ended(child)
  if (code === 0) return
  const result = parseUnpackResult(stderr.split('\n').at(-1) ?? '')
  if (result?.code === 'invalid')
    throw new SandglassError('IMAGE_INVALID', { image: image.reference, issue: `${result.entry ?? ''}: ${result.issue ?? ''}` })
  if (result?.code === 'too_many_entries')
    throw new SandglassError('IMAGE_TOO_LARGE', { image: image.reference, what: 'entries', max: LIMITS.image_entries.max })
  if (result?.code === 'too_many_name_bytes')
    throw new SandglassError('IMAGE_TOO_LARGE', { image: image.reference, what: 'bytes of names', max: MAX_NAME_BYTES })
  throw new Error(`a layer could not be read: ${stderr}`)
}

async function succeeded(child: ChildProcess, name: string): Promise<void> {
  const [code, stderr] = await ended(child)
  if (code !== 0) throw new Error(`${name} failed: ${stderr}`)
}

async function ended(child: ChildProcess): Promise<[number | null, string]> {
  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-4000)
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return [code, stderr.trim()]
}
