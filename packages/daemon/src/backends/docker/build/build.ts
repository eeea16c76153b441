// Image builds by the engine's classic builder, which every engine has. It takes the Dockerfile and the build context as one tar.
// SECURITY: the engine resolves no image itself. The base images are loaded into it before, under names that no registry has.
import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { PassThrough, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import { pack } from 'tar-stream'
import type { LayeredImage } from '../../backend.ts'
import type { ImageBuild } from '../../image-builds.ts'
import { engineMessage, ignoreStatus, nullIfNotFound, statusOf } from '../engine/engine.ts'
import { checkDepth, loadImage, withLayerFiles } from '../images/engine-image.ts'
import type { BuildCache } from './cache.ts'
import { BuildOutput } from './output.ts'

/** Name of the Dockerfile in the context. .dockerignore excludes it, so that a step cannot copy it. */
const DOCKERFILE = '.sandglass.dockerfile'
const MiB = 1024 * 1024
const CPU_PERIOD = 100_000
/** The engine ends the containers of an aborted build by itself; those that are left after this time are removed. */
const END_MS = 10_000
const POLL_MS = 100

export interface BuildContext {
  readonly engine: Docker
  /** Distinguishes the names of this daemon from those of another one. */
  readonly owner: string
  readonly imagesDir: string
  readonly cache: BuildCache
}

/** `take` receives the image in the format of docker save. Afterwards the engine has nothing of the build but steps that a later one may reuse. */
export async function buildInEngine<T>(
  context: BuildContext,
  build: ImageBuild,
  take: (archive: Readable) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const { engine, owner, cache } = context
  const buildName = `sandglass-build-${randomBytes(8).toString('hex')}`
  const names = build.bases.map((_, i) => `${namePrefix(owner)}/${buildName}:${i}`)
  const output = new BuildOutput(build, names)
  const startedAt = Math.floor(Date.now() / 1000)
  await removeStaleNames(engine, namePrefix(owner))
  running.add(buildName)
  const known = await cache.open()
  try {
    for (const [i, base] of build.bases.entries()) await loadBase(context, base, names[i] ?? '', signal)
    const id = await runBuild(engine, build, { names, buildName, noCache: !cache.isFresh(build.maxCacheAgeMs) }, output, signal)
    const archive = Readable.from(await engine.getImage(id).get())
    try {
      return await take(archive)
    } finally {
      archive.destroy()
    }
  } catch (error) {
    await cleanUp(endContainers(engine, buildName, startedAt))
    signal.throwIfAborted()
    throw error instanceof SandglassError ? error : output.failure(engineMessage(error), null)
  } finally {
    running.delete(buildName)
    await cleanUp(removeNames(engine, names))
    await cleanUp(cache.keep(known, output.ids, build.keepsCache))
  }
}

/** Names of the builds that this process runs. */
const running = new Set<string>()
/** No server has a name below .invalid, so these names are never looked up in a registry. */
const namePrefix = (owner: string) => `sandglass.invalid/${owner}`

/** Ignores an engine that does not answer: the next build cleans up. */
async function cleanUp(work: Promise<void>): Promise<void> {
  try {
    await work
  } catch (error) {
    if (statusOf(error) !== null) throw error
  }
}

/** Tags the base image in the engine. It is sent unless the engine has it: most engines use the same id as the image store. */
async function loadBase(
  { engine, imagesDir }: BuildContext,
  image: LayeredImage,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  if ((await nullIfNotFound(engine.getImage(image.id).inspect())) !== null) {
    const [repo = name, tag = 'latest'] = name.split(/:(?=[^:]*$)/)
    await engine.getImage(image.id).tag({ repo, tag })
    return
  }
  checkDepth(image, 0)
  const config = await readFile(image.config, 'utf8')
  await withLayerFiles(image, imagesDir, signal, layers => loadImage(engine, { layers, config, name }, signal))
}

/** An image without any other name or use is removed with its name. */
async function removeNames(engine: Docker, names: readonly string[]): Promise<void> {
  for (const name of names) await ignoreStatus(engine.getImage(name).remove(), 404, 409)
}

/** Removes names that a daemon left behind that died during a build. */
async function removeStaleNames(engine: Docker, prefix: string): Promise<void> {
  const tags = (await engine.listImages()).flatMap(({ RepoTags }) => RepoTags ?? [])
  const stale = tags.filter(tag => tag.startsWith(`${prefix}/`) && !running.has(/\/([^/:]+):[^:]*$/.exec(tag)?.[1] ?? ''))
  await removeNames(engine, stale)
}

interface Run {
  readonly names: readonly string[]
  readonly buildName: string
  readonly noCache: boolean
}

async function runBuild(
  engine: Docker,
  build: ImageBuild,
  { names, buildName, noCache }: Run,
  output: BuildOutput,
  signal: AbortSignal,
): Promise<string> {
  const memory = build.memoryMb * MiB
  const reply = await engine.buildImage(contextTar(build, build.dockerfile(names), signal), {
    dockerfile: DOCKERFILE,
    buildargs: { ...build.buildArgs },
    networkmode: build.network,
    memory,
    memswap: memory,
    cpuperiod: CPU_PERIOD,
    cpuquota: Math.round(build.cpuCores * CPU_PERIOD),
    // Identifies the containers of this build. No step can change it.
    extrahosts: `${buildName}:127.0.0.1`,
    nocache: noCache,
    rm: true,
    forcerm: true,
    pull: false,
    abortSignal: signal,
  })
  for await (const piece of reply) output.read(Buffer.from(piece as Uint8Array))
  signal.throwIfAborted()
  return output.end()
}

/** The context as it is, then our two files, then the end of the archive. */
function contextTar({ context, dockerignore }: ImageBuild, dockerfile: string, signal: AbortSignal): Readable {
  const ours = pack()
  ours.entry({ name: DOCKERFILE, mode: 0o600 }, dockerfile)
  // The engine itself removes these two files from the context where .dockerignore names them.
  ours.entry({ name: '.dockerignore' }, `${dockerignore ?? '.dockerignore'}\n${DOCKERFILE}\n`)
  ours.finalize()
  const whole = async function* () {
    if (context && context.bytes > 0) yield* createReadStream(context.path, { end: context.bytes - 1, highWaterMark: 256 * 1024 })
    yield* ours
  }
  const stream = new PassThrough()
  pipeline(whole, stream, { signal }).catch(error => stream.destroy(error as Error))
  return stream
}

/** Waits until the engine has ended the containers of a build, and removes those that it does not end. `since` is in seconds. */
async function endContainers(engine: Docker, buildName: string, since: number): Promise<void> {
  const deadline = Date.now() + END_MS
  for (;;) {
    const left = await containersOfBuild(engine, buildName, since)
    if (left.length === 0) return
    if (Date.now() > deadline)
      for (const id of left) await ignoreStatus(engine.getContainer(id).remove({ force: true, v: true }), 404, 409)
    if (Date.now() > deadline + END_MS) throw new Error(`the engine does not end containers ${left.join(', ')}`)
    await delay(POLL_MS)
  }
}

async function containersOfBuild(engine: Docker, buildName: string, since: number): Promise<string[]> {
  const found: string[] = []
  for (const { Id, Created } of await engine.listContainers({ all: true })) {
    // The clock of a remote engine may be off by a little.
    if (Created < since - 60) continue
    const info = await nullIfNotFound(engine.getContainer(Id).inspect())
    const hosts = (info?.HostConfig.ExtraHosts ?? []) as string[]
    if (hosts.some(line => line.startsWith(`${buildName}:`))) found.push(Id)
  }
  return found
}
