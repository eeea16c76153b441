// The kernel and the initramfs of machines. The initramfs has the runner as init and the drivers that it loads. Both are copies in the data folder,
// so that QEMU can read them and an upgrade of the kernel package does not remove them.
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, mkdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { renameDurably } from '../../../lib/durable-rename.ts'
import { isMissing, namesIn, nullIfMissing } from '../../../lib/missing-file.ts'
import { MASKED_PROC, READONLY_PROC } from '../../isolation/hidden-paths.ts'
import { seccompProfile } from '../../isolation/seccomp.ts'
import { temporaryName, UNUSED_MS } from '../cached-files.ts'
import { seccompFilter } from '../qemu/seccomp-filter.ts'
import { cpioArchive, file, folder, program } from './cpio.ts'
import type { Kernel } from './find-kernel.ts'
import { collectModules, type KernelModule } from './kernel-modules.ts'
import { plainKernel } from './plain-kernel.ts'

export interface BootFiles {
  readonly kernel: string
  /** The decompressed kernel, for emulated processors; null if there is none. */
  readonly plainKernel: string | null
  /** The error if decompressing the kernel failed. */
  readonly plainProblem: string | null
  readonly initramfs: string
  /** Changes with the kernel and the initramfs. */
  readonly digest: string
  readonly sets: readonly ModuleSet[]
}

/** Drivers by purpose. All machines load the base set; the others are loaded for sessions that need them. */
export const MODULE_SETS = {
  base: ['virtio_mmio', 'virtio_blk', 'virtio_console', 'squashfs', 'overlay', 'ext4'],
  virtiofs: ['virtiofs'],
  '9p': ['9p', '9pnet_virtio'],
  net: ['virtio_net'],
  'kvm-intel': ['kvm_intel'],
  'kvm-amd': ['kvm_amd'],
} as const
/** A module that ext4 requests by an alias, so it is not in the list of dependencies. */
const ALIASED = ['crc32c_generic']
export type ModuleSet = keyof typeof MODULE_SETS

const PLAIN_KERNEL = 'plain-kernel'

/** SECURITY: the limit on pseudo-terminals of a session. */
const TERMINALS = 256

export async function prepareBoot(kernel: Kernel, runnerPath: string, dir: string): Promise<BootFiles> {
  const [info, runner] = await Promise.all([stat(kernel.path), readFile(runnerPath)])
  const hash = createHash('sha256')
    .update(JSON.stringify([kernel, info.size, info.mtimeMs, MODULE_SETS, ALIASED]))
    .update(guestSettings())
  const digest = hash.update(runner).digest('hex').slice(0, 16)
  const place = join(dir, digest)
  if ((await readSets(place)) === null) await build(kernel, runner, place)
  const sets = (await readSets(place)) ?? ['base']
  await utimes(join(place, 'sets'), new Date(), new Date())
  return { kernel: join(place, 'kernel'), initramfs: join(place, 'initramfs'), digest, sets, ...(await plain(place)) }
}

/** An empty file means that the kernel cannot be decompressed this way. A failure is not remembered and is tried again. */
async function plain(place: string): Promise<Pick<BootFiles, 'plainKernel' | 'plainProblem'>> {
  const path = join(place, PLAIN_KERNEL)
  try {
    if (!existsSync(path)) await makePlain(place, path)
    return { plainKernel: (await stat(path)).size > 0 ? path : null, plainProblem: null }
  } catch (error) {
    if (!(error instanceof Error)) throw error
    return { plainKernel: null, plainProblem: error.message }
  }
}

async function makePlain(place: string, path: string): Promise<void> {
  const building = temporaryName(place)
  try {
    await writeFile(building, (await plainKernel(await readFile(join(place, 'kernel')))) ?? '')
    await chmod(building, 0o644)
    await renameDurably(building, path)
  } finally {
    await rm(building, { force: true })
  }
}

/** Removes the boot files of other kernels and runners than `used`. */
export async function pruneBoot(dir: string, used: BootFiles): Promise<void> {
  for (const name of await namesIn(dir)) {
    if (!/^[0-9a-f]{16}$/.test(name) || name === used.digest) continue
    const sets = await stat(join(dir, name, 'sets')).catch(nullIfMissing)
    if (sets === null || Date.now() - sets.mtimeMs > UNUSED_MS) await rm(join(dir, name), { recursive: true })
  }
}

async function build(kernel: Kernel, runner: Buffer, place: string): Promise<void> {
  const found = new Map<ModuleSet, KernelModule[]>()
  for (const name of Object.keys(MODULE_SETS) as ModuleSet[]) {
    const modules = await collectModules(kernel.modulesDir, MODULE_SETS[name], name === 'base' ? ALIASED : []).catch(error => {
      // No machine boots without the base set. A kernel may lack the modules of the other sets.
      if (name === 'base') throw error
      return null
    })
    if (modules !== null) found.set(name, modules)
  }
  const building = temporaryName(place)
  try {
    await mkdir(building, { recursive: true })
    const contents = {
      kernel: await readFile(kernel.path),
      initramfs: initramfs(runner, found),
      sets: [...found.keys()].join('\n'),
    }
    for (const [name, content] of Object.entries(contents)) {
      await writeFile(join(building, name), content)
      await chmod(join(building, name), 0o644)
    }
    await chmod(building, 0o755)
    await renameDurably(building, place)
  } catch (error) {
    // Another daemon may have made it meanwhile.
    if ((await readSets(place)) === null) throw error
  } finally {
    await rm(building, { recursive: true, force: true })
  }
}

function initramfs(runner: Buffer, sets: ReadonlyMap<ModuleSet, readonly KernelModule[]>): Buffer {
  const modules = new Map([...sets.values()].flat().map(({ name, content }) => [name, content]))
  const lists = [...sets].map(([set, members]) =>
    file(`modules/${set}.list`, Buffer.from(members.map(({ name }) => name).join('\n'))),
  )
  return cpioArchive([
    ...['proc', 'sys', 'dev', 'modules'].map(folder),
    program('init', runner),
    file('settings.json', guestSettings()),
    ...lists,
    ...[...modules].map(([name, content]) => file(`modules/${name}.ko`, content)),
  ])
}

/** Settings for the guest's first process, the same for every session. The runner defines the format. */
function guestSettings(): Buffer {
  const seccomp = seccompFilter(seccompProfile(process.arch), process.arch === 'arm64' ? 'arm64' : 'x64').toString('base64')
  return Buffer.from(JSON.stringify({ masked: MASKED_PROC, read_only: READONLY_PROC, terminals: TERMINALS, seccomp }))
}

async function readSets(place: string): Promise<ModuleSet[] | null> {
  try {
    const names = (await readFile(join(place, 'sets'), 'utf8')).split('\n')
    return names.filter((name): name is ModuleSet => name in MODULE_SETS)
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}
