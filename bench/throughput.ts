// Commands per second: one session, and 50 at once with a caller each, against `docker exec` in as many containers.
import { type Benchmark, type Case, moreIsBetter, type Options } from './support/benchmark.ts'
import { type DockerPeer, startDockerPeer } from './support/docker-peer.ts'
import { type Figures, figures } from './support/quantiles.ts'
import { type Sandglass, startSandglass } from './support/sandglass.ts'

const SESSIONS = [1, 50]
/** Machines started at the same time; more would only queue for the same cores. */
const STARTING = 4
const CPU_CORES = 1

export const throughput: Benchmark = {
  about: 'execs of `true` per second, 1 session and 50 at once',
  peer: '`docker exec <container> true` in as many containers',
  run: measureThroughput,
}

/** One command in one machine. */
type Call = () => Promise<void>

async function measureThroughput({ full, withPeer, signal, say }: Options): Promise<Case[]> {
  await using stack = new AsyncDisposableStack()
  const engine = withPeer ? stack.use(await startDockerPeer(say, signal)) : undefined
  const sandglass = stack.use(await startSandglass({}, signal))
  const most = Math.max(...SESSIONS)
  say(`starting ${most} sessions${engine ? ' and as many containers' : ''}`)
  const ours = await inBatches(most, () => sessionCall(sandglass, signal))
  const theirs = engine ? await inBatches(most, () => containerCall(engine)) : undefined
  // One second is one sample. docker exec finishes few in a second, so its quantiles are coarse.
  const seconds = full ? 30 : 6
  const cases: Case[] = []
  for (const count of SESSIONS) {
    say(`${count} at once, ${seconds} s each`)
    const mine = await rate(ours.slice(0, count), seconds)
    const peer = theirs && (await rate(theirs.slice(0, count), seconds))
    cases.push(moreIsBetter(`${count} at once`, mine, peer ?? null))
  }
  return cases
}

async function sessionCall({ client }: Sandglass, signal: AbortSignal): Promise<Call> {
  const session = await client.createSession({ cpuCores: CPU_CORES }, { signal })
  return async () => {
    const { exitCode } = await session.exec('true', { signal })
    if (exitCode !== 0) throw new Error(`true exited ${exitCode}`)
  }
}

async function containerCall(engine: DockerPeer): Promise<Call> {
  const container = await engine.container({ cpuCores: CPU_CORES, readonly: true, flags: ['--interactive'] }, 'sh')
  return async () => {
    await engine.docker('exec', container, 'true')
  }
}

async function inBatches(count: number, make: () => Promise<Call>): Promise<Call[]> {
  const made: Call[] = []
  while (made.length < count)
    made.push(...(await Promise.all(Array.from({ length: Math.min(STARTING, count - made.length) }, make))))
  return made
}

/** Every call is made again as soon as it has returned, for so many seconds after one of warm-up. */
async function rate(calls: readonly Call[], seconds: number): Promise<Figures> {
  const perSecond = Array.from({ length: seconds }, () => 0)
  const begin = performance.now() + 1000
  const end = begin + seconds * 1000
  const latencies: number[] = []
  await Promise.all(
    calls.map(async call => {
      for (let at = performance.now(); at < end; ) {
        const asked = at
        await call()
        at = performance.now()
        const second = Math.floor((at - begin) / 1000)
        if (second < 0 || second >= seconds) continue
        perSecond[second] = (perSecond[second] ?? 0) + 1
        latencies.push(at - asked)
      }
    }),
  )
  const { p50, p99 } = figures(latencies)
  return figures(perSecond, { total: latencies.length, latency_ms_p50: p50, latency_ms_p99: p99 })
}
