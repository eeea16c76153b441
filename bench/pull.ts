// An image from a registry on loopback to unpacked layers, against skopeo and umoci.
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installed } from './support/apt.ts'
import { type Benchmark, type Case, lessIsBetter, type Options } from './support/benchmark.ts'
import { run } from './support/command.ts'
import { type Figures, figures } from './support/quantiles.ts'
import { type Registry, startRegistry } from './support/registry.ts'
import { startSandglass } from './support/sandglass.ts'

export const pull: Benchmark = {
  about: 'an image of the host’s own folders, from a local registry to unpacked layers',
  peer: '`skopeo copy` into an OCI layout and `umoci unpack` of it',
  run: measurePull,
}

/** Programs, libraries, and many small files: as the layers of an image of a language are. */
const LAYERS = [
  ['usr/sbin', 'usr/lib/git-core'],
  ['usr/lib/python3', 'usr/lib/python3.11', 'usr/share/perl'],
  ['usr/share/doc', 'usr/share/zoneinfo', 'usr/include'],
]

async function measurePull({ full, withPeer, signal, say }: Options): Promise<Case[]> {
  await using stack = new AsyncDisposableStack()
  const layers = LAYERS.map(paths => paths.filter(path => existsSync(`/${path}`))).filter(paths => paths.length > 0)
  const registry = stack.use(await startRegistry(layers, say, signal))
  const { client } = stack.use(
    await startSandglass({ config: { registries: { [registry.host]: { plain_http: true } } } }, signal),
  )
  const peer = withPeer ? await peerPull(registry, stack, say, signal) : undefined
  const times = { ours: [] as number[], peer: [] as number[] }
  const rounds = full ? 10 : 3
  say(
    `${rounds} rounds of ${Math.round(registry.bytes.compressed / 1024 ** 2)} MiB, unpacked ${Math.round(registry.bytes.unpacked / 1024 ** 2)}`,
  )
  for (let round = -1; round < rounds; round++) {
    const ours = await timed(() => client.images.pull(registry.reference, { signal }))
    await client.images.remove(registry.reference, { signal })
    if (round >= 0) times.ours.push(ours)
    if (!peer) continue
    const theirs = await timed(peer.pull)
    await peer.clear()
    if (round >= 0) times.peer.push(theirs)
  }
  return [lessIsBetter('pull', 'ms', withRate(times.ours, registry), peer ? withRate(times.peer, registry) : null)]
}

async function peerPull({ reference }: Registry, stack: AsyncDisposableStack, say: Options['say'], signal: AbortSignal) {
  const { skopeo, umoci } = await installed(['skopeo', 'umoci'], ['skopeo', 'umoci'], say, signal)
  const folder = await mkdtemp(join(tmpdir(), 'sg-umoci-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  const [layout, bundle] = [join(folder, 'layout'), join(folder, 'bundle')]
  const policy = ['--insecure-policy', '--tmpdir', folder]
  return {
    pull: async () => {
      await run(
        [skopeo, ...policy, 'copy', '--quiet', '--src-tls-verify=false', `docker://${reference}`, `oci:${layout}:1`],
        signal,
      )
      await run([umoci, 'unpack', '--image', `${layout}:1`, bundle], signal)
    },
    clear: async () => {
      for (const path of [layout, bundle]) await rm(path, { recursive: true, force: true })
    },
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now()
  await work()
  return performance.now() - begin
}

function withRate(times: readonly number[], { bytes }: Registry): Figures {
  return figures(times, { unpacked_mib_per_second: Math.round(bytes.unpacked / 1024 ** 2 / (figures(times).p50 / 1000)) })
}
