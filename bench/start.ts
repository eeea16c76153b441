// Create to first output, cold: createSession and the answer to `echo hi`, against `docker run --rm` until it has printed it.
import { LIMITS } from '@sandglass/contract/tables'
import { hasQemu, measureMicrovm } from './microvm.ts'
import { type Benchmark, type Case, lessIsBetter, type Options } from './support/benchmark.ts'
import { type DockerPeer, startDockerPeer } from './support/docker-peer.ts'
import { figures, median } from './support/quantiles.ts'
import { installedRuntimes, onDocker, type Sandglass, startSandglass } from './support/sandglass.ts'

const WARM_UP = 3

export const start: Benchmark = {
  about: 'create to first output, cold',
  peer: '`docker run --rm echo hi` on the same root filesystem with the same limits; of microvm: QEMU by hand (boot), and that boot (snapshot)',
  run: measureStart,
}

interface Sample {
  readonly firstOutputMs: number
  /** Ours: ending the session. The peer's: from the output to the exit of `docker run --rm`. */
  readonly endMs: number
}

/** Virtual machines come after the rest: they are slow, and keep the processors busy. */
async function measureStart(options: Options): Promise<Case[]> {
  const cases = await measureContainers(options)
  if (!hasQemu()) options.say('without virtual machines: there is no QEMU here')
  return hasQemu() ? [...cases, ...(await measureMicrovm(options))] : cases
}

async function measureContainers({ full, withPeer, signal, say }: Options): Promise<Case[]> {
  await using stack = new AsyncDisposableStack()
  const engine = withPeer ? stack.use(await startDockerPeer(say, signal)) : undefined
  const runtimes = (await installedRuntimes()).slice(0, full ? undefined : 1)
  const daemons: { runtime: string; sandglass: Sandglass; samples: Sample[] }[] = []
  for (const runtime of runtimes)
    daemons.push({ runtime, sandglass: stack.use(await startSandglass({ runtime }, signal)), samples: [] })
  const boxed = engine && stack.use(await startSandglass(onDocker(engine.socket), signal))
  const boxedSamples: Sample[] = []
  const theirs: Sample[] = []
  const rounds = full ? 100 : 30
  say(`${rounds} rounds, ${[...runtimes, ...(engine ? ['docker'] : [])].join(' and ')} in turn`)
  for (let round = -WARM_UP; round < rounds; round++) {
    for (const { sandglass, samples } of daemons) {
      const sample = await startSession(sandglass, signal)
      if (round >= 0) samples.push(sample)
    }
    if (!engine || !boxed) continue
    const onEngine = await startSession(boxed, signal, 'docker')
    if (round >= 0) boxedSamples.push(onEngine)
    const sample = await startContainer(engine)
    if (round >= 0) theirs.push(sample)
  }
  const peer = engine ? summary(theirs, { engine: engine.version }) : null
  return [
    ...daemons.map(({ runtime, samples }) => lessIsBetter(`cold, ${runtime}`, 'ms', summary(samples, { runtime }), peer)),
    ...(peer ? [lessIsBetter('cold, docker backend', 'ms', summary(boxedSamples, { runtime: 'docker' }), peer)] : []),
  ]
}

async function startSession({ client }: Sandglass, signal: AbortSignal, backend?: 'docker'): Promise<Sample> {
  const begin = performance.now()
  const session = await client.createSession(backend ? { backend } : {}, { signal })
  const { output } = await session.exec('echo hi', { signal })
  const firstOutputMs = performance.now() - begin
  if (output.trim() !== 'hi') throw new Error(`the session printed ${JSON.stringify(output)}`)
  const end = performance.now()
  await session.destroy({ signal })
  return { firstOutputMs, endMs: performance.now() - end }
}

async function startContainer(engine: DockerPeer): Promise<Sample> {
  const limits = { cpuCores: LIMITS.cpu_cores.default, readonly: true }
  const { firstOutputMs, wholeMs, stdout } = await engine.docker('run', '--rm', ...engine.runArgs(limits), 'echo', 'hi')
  if (stdout.trim() !== 'hi') throw new Error(`the container printed ${JSON.stringify(stdout)}`)
  return { firstOutputMs, endMs: wholeMs - firstOutputMs }
}

function summary(samples: readonly Sample[], extra: Record<string, string>) {
  return figures(
    samples.map(sample => sample.firstOutputMs),
    { end_p50: median(samples.map(sample => sample.endMs)), ...extra },
  )
}
