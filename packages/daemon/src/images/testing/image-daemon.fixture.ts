// For tests: a daemon whose backend unpacks layers but does not start machines from them, and functions for the image routes.
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { Image, ImageProgress, WireError } from '@sandglass/contract'
import type { Backend, LayeredImage, MachineRoot, RootImage } from '../../backends/backend.ts'
import { PlainChildBackend } from '../../backends/plain-child/backend.ts'
import { LAUNCHER_PATH, RUNNER_PATH } from '../../backends/plain-child/plain-child.fixture.ts'
import { LayerFolders, type UnpackLimits } from '../../layers/layer-folders.ts'
import { daemonFixture, type FixtureOptions, type TestDaemon, temporaryFolder } from '../../testing/daemon.fixture.ts'

class UnpackingBackend extends PlainChildBackend implements Backend {
  readonly folders: LayerFolders
  readonly prepared: RootImage[] = []

  constructor(folder: string, layers: string) {
    super({ forTests: true, folder, runnerPath: RUNNER_PATH })
    this.folders = new LayerFolders(layers, LAUNCHER_PATH, false)
  }

  override async prepare({ image }: MachineRoot): Promise<void> {
    this.prepared.push(image)
  }

  receiveLayer(image: string, diffId: string, tar: Readable, limits: UnpackLimits, signal: AbortSignal) {
    return this.folders.unpack(image, diffId, tar, limits, signal)
  }

  async pruneImages(kept: readonly LayeredImage[], pinned: ReadonlySet<string>): Promise<void> {
    await this.folders.sweep()
    await this.folders.prune(new Set([...pinned, ...kept.flatMap(({ layers }) => layers.map(({ diffId }) => diffId))]))
  }
}

export type Outcome = {
  status: number
  events: { event: string; data: unknown }[]
  image: Image | undefined
  error: WireError | undefined
}

export type ImageDaemon = TestDaemon & {
  backend: UnpackingBackend
  pull(reference: string, signal?: AbortSignal): Promise<Outcome>
  import(archive: Buffer, reference?: string): Promise<Outcome>
  /** Names in a folder below images/. */
  stored(folder: 'blobs/sha256' | 'layers' | 'import'): Promise<string[]>
  layer(diffId: string): string
}

export async function imageDaemon(config: string, options: FixtureOptions = {}): Promise<ImageDaemon> {
  const machines = await temporaryFolder()
  const dataDir = options.dataDir ?? (await temporaryFolder())
  const file = join(machines, 'config.yaml')
  await writeFile(file, config, { mode: 0o600 })
  const layers = join(dataDir, 'images', 'layers')
  await mkdir(join(machines, 'm'))
  const backend = new UnpackingBackend(join(machines, 'm'), layers)
  const daemon = await daemonFixture({
    ...options,
    dataDir,
    backends: () => [backend],
    flags: { ...options.flags, config: [file] },
  })
  return {
    ...daemon,
    backend,
    pull: async (reference, signal) =>
      outcome(
        await daemon.fetch('/v1/images/pull', {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ reference }),
          ...(signal ? { signal } : {}),
        }),
      ),
    import: async (archive, reference) => {
      const query = reference === undefined ? '' : `?reference=${encodeURIComponent(reference)}`
      const body = new Uint8Array(archive)
      return outcome(
        await daemon.fetch(`/v1/images/import${query}`, {
          method: 'POST',
          headers: { 'content-type': 'application/x-tar' },
          body,
        }),
      )
    },
    stored: async folder => (await readdir(join(dataDir, 'images', folder)).catch(() => [])).toSorted(),
    layer: diffId => join(layers, diffId.slice(7)),
  }
}

async function outcome(response: Response): Promise<Outcome> {
  const text = await response.text()
  if (!response.ok) return { status: response.status, events: [], image: undefined, error: JSON.parse(text).error }
  const events = [...text.matchAll(/^event: (\w+)\ndata: (.*)$/gm)].map(([, event = '', data = '']) => ({
    event,
    data: JSON.parse(data),
  }))
  const last = events.at(-1)
  const done = last?.event === 'done' ? (last.data as Image & { items?: Image[] }) : undefined
  return {
    status: response.status,
    events,
    image: done?.items?.[0] ?? done,
    error: last?.event === 'error' ? (last.data as WireError) : undefined,
  }
}

export const progressOf = ({ events }: Outcome): ImageProgress[] =>
  events.filter(({ event }) => event === 'progress').map(({ data }) => data as ImageProgress)
