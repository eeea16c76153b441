// Create to first output of a virtual machine: booted, against QEMU started by hand; and from a snapshot, against that boot.
import { existsSync } from 'node:fs'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type BareVm, bootBareVm, prepareBareVm } from './support/bare-vm.ts'
import { type Benchmark, type Case, lessIsBetter, type Options } from './support/benchmark.ts'
import { figures } from './support/quantiles.ts'
import { type Sandglass, startSandglass } from './support/sandglass.ts'
import { until } from './support/until.ts'

const QEMU = `/usr/bin/qemu-system-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}`
const SNAPSHOT_DEADLINE_MS = 300_000
const RESTORES = 3
/** What a machine has beside the session's memory, so that both have the same. */
const [SESSION_MB, MACHINE_MB] = [512, 656]

export const microvm: Benchmark = {
  about: 'create to first output of a virtual machine, booted and from a snapshot',
  peer: 'QEMU started by hand with the same kernel and image until its bash has said hi (boot), and our own boot (snapshot)',
  run: measureMicrovm,
}

export const hasQemu = () => existsSync(QEMU)

export async function measureMicrovm({ full, withPeer, signal, say }: Options): Promise<Case[]> {
  await using sandglass = await startSandglass({}, signal)
  const [boots, restores, theirs]: [number[], number[], number[]] = [[], [], []]
  say('a first session, which makes the disk of the image')
  await startSession(sandglass, signal)
  const peer = withPeer ? await barePeer(sandglass) : undefined
  const rounds = full ? 15 : 4
  for (let round = 1; round <= rounds; round++) {
    say(`round ${round} of ${rounds}`)
    await snapshotMade(sandglass, signal)
    for (let i = 0; i < RESTORES; i++) restores.push(await startSession(sandglass, signal))
    await rm(snapshots(sandglass), { recursive: true })
    boots.push(await startSession(sandglass, signal))
    if (peer) theirs.push(await bootBareVm(peer, signal))
  }
  return [
    lessIsBetter('boot, microvm', 'ms', figures(boots, {}), peer ? figures(theirs, {}) : null),
    lessIsBetter('snapshot, microvm', 'ms', figures(restores, {}), figures(boots, {})),
  ]
}

async function startSession({ client }: Sandglass, signal: AbortSignal): Promise<number> {
  const begin = performance.now()
  const session = await client.createSession({ backend: 'microvm', cpuCores: 1, memoryMb: SESSION_MB }, { signal })
  const { output } = await session.exec('echo hi', { signal })
  const firstOutputMs = performance.now() - begin
  if (output.trim() !== 'hi') throw new Error(`the session printed ${JSON.stringify(output)}`)
  await session.destroy({ signal })
  return firstOutputMs
}

const snapshots = ({ dataDir }: Sandglass) => join(dataDir, 'images/snapshots')

/** Made in the background after a boot; nothing else is measured meanwhile. */
async function snapshotMade(sandglass: Sandglass, signal: AbortSignal): Promise<void> {
  const dir = snapshots(sandglass)
  await until('a snapshot is made', SNAPSHOT_DEADLINE_MS, signal, async () => {
    return existsSync(dir) && (await readdir(dir)).some(name => name.endsWith('.vm'))
  })
}

async function barePeer({ dataDir }: Sandglass): Promise<BareVm> {
  const [boot, disks] = [join(dataDir, 'images/boot'), join(dataDir, 'images/disks')]
  const names = await readdir(boot)
  const folder = names.find(name => /^[0-9a-f]{16}$/.test(name)) ?? ''
  const clock = names.find(name => name.startsWith('tsc-'))
  const isKvm = await worksWithKvm(boot, names)
  const image = (await readdir(disks)).find(name => name.startsWith('programs-')) ?? ''
  const tsc = clock && !isKvm ? `tsc_early_khz=${await readFile(join(boot, clock), 'utf8')} tsc=reliable no_timer_check` : ''
  const vm = { qemu: QEMU, image: join(disks, image), kernelArgs: tsc, accel: isKvm ? 'kvm' : 'tcg', memoryMb: MACHINE_MB }
  return await prepareBareVm(dataDir, join(boot, folder), vm)
}

async function worksWithKvm(boot: string, names: readonly string[]): Promise<boolean> {
  const tried = names.filter(name => name.startsWith('kvm-'))
  const found = await Promise.all(tried.map(name => readFile(join(boot, name), 'utf8')))
  return found.includes('it works')
}
