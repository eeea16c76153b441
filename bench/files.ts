// 64 MiB from a file of the host into the sandbox and back into a file of the host, against `docker cp`.
import { createHash, randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Session } from '@sandglass/sdk'
import { fileBody, saveTo } from '@sandglass/sdk/node'
import { type Benchmark, type Case, lessIsBetter, type Options } from './support/benchmark.ts'
import { type DockerPeer, startDockerPeer } from './support/docker-peer.ts'
import { type Figures, figures } from './support/quantiles.ts'
import { startSandglass } from './support/sandglass.ts'

const SIZE = 64 * 1024 * 1024
const WARM_UP = 2
const CPU_CORES = 1
const INSIDE = '/workspace/body'

export const files: Benchmark = {
  about: 'a file of 64 MiB up and down',
  peer: '`docker cp`, to the writable layer of a container and from it',
  run: measureFiles,
}

interface Carrier {
  up(from: string): Promise<void>
  down(to: string): Promise<void>
  /** Removes the file inside, so that every upload makes a new one. */
  clear(): Promise<void>
}

async function measureFiles({ full, withPeer, signal, say }: Options): Promise<Case[]> {
  await using stack = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'sg-files-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  const engine = withPeer ? stack.use(await startDockerPeer(say, signal)) : undefined
  const { client } = stack.use(await startSandglass({}, signal))
  const ours = sessionCarrier(await client.createSession({ cpuCores: CPU_CORES }, { signal }), signal)
  const theirs = engine && (await containerCarrier(engine))
  const from = join(folder, 'up')
  await writeFile(from, randomBytes(SIZE))
  const rounds = full ? 50 : 20
  const times = { ours: { up: [] as number[], down: [] as number[] }, peer: { up: [] as number[], down: [] as number[] } }
  say(`${rounds} rounds`)
  for (let round = -WARM_UP; round < rounds; round++) {
    for (const [side, carrier] of [['ours', ours] as const, ['peer', theirs] as const]) {
      if (!carrier) continue
      const to = join(folder, `down-${side}`)
      await rm(to, { force: true })
      const up = await timed(() => carrier.up(from))
      const down = await timed(() => carrier.down(to))
      await carrier.clear()
      if (round >= 0) {
        times[side].up.push(up)
        times[side].down.push(down)
      } else if ((await digest(to)) !== (await digest(from))) throw new Error(`${side}: the file came back different`)
    }
  }
  const peer = (way: 'up' | 'down') => (engine ? withRate(times.peer[way]) : null)
  return [
    lessIsBetter('up', 'ms', withRate(times.ours.up), peer('up')),
    lessIsBetter('down', 'ms', withRate(times.ours.down), peer('down')),
  ]
}

function sessionCarrier(session: Session, signal: AbortSignal): Carrier {
  return {
    up: async from => {
      await session.files.upload(INSIDE, await fileBody(from), { signal })
    },
    down: async to => {
      await using file = await open(to, 'wx')
      await saveTo(file, await session.files.download(INSIDE, { signal }))
    },
    clear: () => session.files.remove(INSIDE, { signal }),
  }
}

async function containerCarrier(engine: DockerPeer): Promise<Carrier> {
  const container = await engine.container({ cpuCores: CPU_CORES, readonly: false, flags: ['--interactive'] }, 'sh')
  return {
    up: async from => {
      await engine.docker('cp', from, `${container}:${INSIDE}`)
    },
    down: async to => {
      await engine.docker('cp', `${container}:${INSIDE}`, to)
    },
    clear: async () => {
      await engine.docker('exec', '--user', '0', container, 'rm', INSIDE)
    },
  }
}

async function timed(work: () => Promise<void>): Promise<number> {
  const begin = performance.now()
  await work()
  return performance.now() - begin
}

async function digest(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

function withRate(times: readonly number[]): Figures {
  const { p50 } = figures(times)
  return figures(times, { mib_per_second: Math.round(SIZE / 1024 / 1024 / (p50 / 1000)) })
}
