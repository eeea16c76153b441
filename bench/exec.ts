// The round trip of `true` in a session that runs, over HTTP with the SDK, against `docker exec` in a container that runs.

import { hasQemu } from './microvm.ts'
import { type Benchmark, type Case, lessIsBetter, type Options } from './support/benchmark.ts'
import { startDockerPeer } from './support/docker-peer.ts'
import { figures } from './support/quantiles.ts'
import { onDocker, startSandglass } from './support/sandglass.ts'

const WARM_UP = 10
const CPU_CORES = 1

export const exec: Benchmark = {
  about: 'round trip of `true` over HTTP with the SDK',
  peer: '`docker exec <container> true`',
  run: measureExec,
}

async function measureExec({ full, withPeer, signal, say }: Options): Promise<Case[]> {
  await using stack = new AsyncDisposableStack()
  const engine = withPeer ? stack.use(await startDockerPeer(say, signal)) : undefined
  const { client } = stack.use(await startSandglass(engine ? onDocker(engine.socket) : {}, signal))
  const session = await client.createSession({ cpuCores: CPU_CORES }, { signal })
  const boxed = engine && (await client.createSession({ cpuCores: CPU_CORES, backend: 'docker' }, { signal }))
  const vm = hasQemu() ? await client.createSession({ cpuCores: CPU_CORES, backend: 'microvm' }, { signal }) : undefined
  const container = await engine?.container({ cpuCores: CPU_CORES, readonly: true, flags: ['--interactive'] }, 'sh')
  const rounds = full ? 1000 : 200
  const commands = { builtin: 'true', program: '/bin/true' }
  const ours: Record<keyof typeof commands, number[]> = { builtin: [], program: [] }
  const [ourDocker, ourVm]: [number[], number[]] = [[], []]
  const theirs: number[] = []
  say(`${rounds} rounds`)
  for (let round = -WARM_UP; round < rounds; round++) {
    for (const kind of ['builtin', 'program'] as const) {
      const begin = performance.now()
      const { exitCode } = await session.exec(commands[kind], { signal })
      const took = performance.now() - begin
      if (exitCode !== 0) throw new Error(`${commands[kind]} exited ${exitCode}`)
      if (round >= 0) ours[kind].push(took)
    }
    for (const [other, times] of [
      [vm, ourVm],
      [boxed, ourDocker],
    ] as const) {
      if (other === undefined) continue
      const begin = performance.now()
      await other.exec(commands.builtin, { signal })
      if (round >= 0) times.push(performance.now() - begin)
    }
    if (!engine || !container) continue
    const { wholeMs } = await engine.docker('exec', container, 'true')
    if (round >= 0) theirs.push(wholeMs)
  }
  const peer = engine ? figures(theirs, { engine: engine.version }) : null
  return [
    lessIsBetter('true', 'ms', figures(ours.builtin), peer),
    lessIsBetter('/bin/true', 'ms', figures(ours.program), peer),
    ...(boxed ? [lessIsBetter('true, docker backend', 'ms', figures(ourDocker), peer)] : []),
    ...(vm ? [lessIsBetter('true, microvm backend', 'ms', figures(ourVm), peer)] : []),
  ]
}
