// Images made by the engine's own builder: the one that every engine has, and that takes a Dockerfile and its files as one tar.
// SECURITY: the engine looks for no image by itself. What a Dockerfile starts from is put there before, under names that lead nowhere else.
import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { PassThrough, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import { pack } from 'tar-stream'
import type { ImageBuild } from '../../backend.ts'
import { engineSays, statusOf } from '../engine/engine.ts'
import { placeBase, removeNames, removeStaleNames } from './bases.ts'
import type { BuildCache } from './cache.ts'
import { clearContainers } from './containers.ts'
import { BuildOutput } from './output.ts'

/** Of the Dockerfile among the files; .dockerignore keeps it out of what a step can copy. */
const DOCKERFILE = '.sandglass.dockerfile'
const MiB = 1024 * 1024
const CPU_PERIOD = 100_000

export interface BuildPlace {
  readonly engine: Docker
  /** Tells this daemon's names from another's. */
  readonly owner: string
  readonly imagesDir: string
  readonly cache: BuildCache
}

/** `take` gets the image as docker save writes it. Afterwards the engine has nothing of it but steps that a later build may use again. */
export async function buildInEngine<T>(
  { engine, owner, imagesDir, cache }: BuildPlace,
  build: ImageBuild,
  take: (archive: Readable) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const mark = `sandglass-build-${randomBytes(8).toString('hex')}`
  // No server has a name below .invalid, so that none of these is ever looked for in a registry.
  const names = build.bases.map((_, i) => `${namesOf(owner)}/${mark}:${i}`)
  const output = new BuildOutput(build, names)
  const startedAt = Math.floor(Date.now() / 1000)
  await removeStaleNames(engine, namesOf(owner), running)
  running.add(mark)
  const known = await cache.open()
  try {
    for (const [i, base] of build.bases.entries()) await placeBase(engine, base, names[i] ?? '', imagesDir, signal)
    const id = await runBuild(engine, build, { names, mark, noCache: !cache.isFresh(build.maxCacheAgeMs) }, output, signal)
    const archive = Readable.from(await engine.getImage(id).get())
    try {
      return await take(archive)
    } finally {
      archive.destroy()
    }
  } catch (error) {
    await tidy(clearContainers(engine, mark, startedAt))
    signal.throwIfAborted()
    throw error instanceof SandglassError ? error : output.failure(engineSays(error), null)
  } finally {
    running.delete(mark)
    await tidy(removeNames(engine, names))
    await tidy(cache.keep(known, output.ids, build.keepsCache))
  }
}

/** Marks of the builds of this process. */
const running = new Set<string>()
const namesOf = (owner: string) => `sandglass.invalid/${owner}`

/** An engine that does not answer is tidied with the next build. */
async function tidy(work: Promise<void>): Promise<void> {
  try {
    await work
  } catch (error) {
    if (statusOf(error) !== null) throw error
  }
}

interface Run {
  readonly names: readonly string[]
  readonly mark: string
  readonly noCache: boolean
}

async function runBuild(
  engine: Docker,
  build: ImageBuild,
  { names, mark, noCache }: Run,
  output: BuildOutput,
  signal: AbortSignal,
): Promise<string> {
  const memory = build.memoryMb * MiB
  const reply = await engine.buildImage(contextOf(build, build.dockerfile(names), signal), {
    dockerfile: DOCKERFILE,
    buildargs: { ...build.buildArgs },
    networkmode: build.network,
    memory,
    memswap: memory,
    cpuperiod: CPU_PERIOD,
    cpuquota: Math.round(build.cpuCores * CPU_PERIOD),
    // What tells the containers of this build from all others, and what no step can change.
    extrahosts: `${mark}:127.0.0.1`,
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

/** The files as they came, then ours, then the end. */
function contextOf({ context, dockerignore }: ImageBuild, dockerfile: string, signal: AbortSignal): Readable {
  const ours = pack()
  ours.entry({ name: DOCKERFILE, mode: 0o600 }, dockerfile)
  // The engine itself removes what of these two is named in it.
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
