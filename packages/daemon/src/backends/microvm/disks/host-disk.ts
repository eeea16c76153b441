// The image `host` as two disks: the host's programs, copied once, and the small rest, which may change more often.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { namesIn } from '../../../lib/missing-file.ts'
import { prepareHost } from '../../rootfs/host-image.ts'
import { contentState, stateOf } from '../../rootfs/host-state.ts'
import { COMPRESSION, inMib, makeSquashfs, type SquashfsTools } from './squashfs.ts'

const run = promisify(execFile)

/** What no program needs to run. */
const LEFT_OUT = [
  ...['doc', 'man', 'info', 'help', 'gtk-doc', 'locale', 'lintian', 'bug'].map(name => `usr/share/${name}`),
  ...['usr/src', 'usr/lib/debug', 'usr/lib/modules', 'usr/lib/firmware', 'lib/modules', 'lib/firmware'],
]
/** Folders in which a program that is installed or removed shows. */
const FOLDERS = [
  ...['usr', 'usr/bin', 'usr/sbin', 'usr/lib', 'usr/libexec', 'bin', 'sbin', 'lib'],
  ...['usr/local', 'usr/local/bin', 'usr/local/sbin', 'usr/local/lib', 'var/lib/pacman/local'],
]
/** The records of package managers. */
const RECORDS = [
  ...['var/lib/dpkg/status', 'lib/apk/db/installed'],
  ...['rpmdb.sqlite', 'Packages', 'Packages.db'].map(name => `var/lib/rpm/${name}`),
]
// SECURITY: what others may not read on the host is not copied at all; neither are sockets, pipes and devices.
const READABLE = [
  ...['-action', 'prune@type(d) && !perm(-o=rx)'],
  ...['-action', 'exclude@type(f) && !perm(-o=r)'],
  ...['-action', 'exclude@!type(f) && !type(d) && !type(l)'],
]

export interface HostDisks {
  readonly image: string
  readonly top: string
}

/** File names of the disks, made on first use and again when programs were installed. Takes seconds then; `say` is told how far it is. */
export async function prepareHostDisks(
  tools: SquashfsTools,
  dirs: { readonly images: string; readonly disks: string },
  signal: AbortSignal,
  say: (step: string) => void,
): Promise<HostDisks> {
  const { name, layers } = await prepareHost(dirs.images)
  const [image, top] = [`programs-${await stateOfPrograms()}.sqfs`, `${name}.sqfs`]
  const skeleton = layers.find(layer => layer.target === '/')?.source ?? ''
  const programs = layers.filter(layer => layer.target !== '/').map(layer => layer.source)
  const shown = new Set(programs.map(source => basename(source)))
  const rest = (await readdir(skeleton)).filter(entry => !shown.has(entry)).map(entry => join(skeleton, entry))
  await makeSquashfs(tools, rest, join(dirs.disks, top), [], signal)
  const report = reporter(programs, say)
  const options = [...READABLE, '-wildcards', '-e', ...LEFT_OUT]
  await makeSquashfs(tools, programs, join(dirs.disks, image), options, signal, report)
  return { image, top }
}

/** How much there is to copy is found out meanwhile, and told once it is known. */
function reporter(programs: readonly string[], say: (step: string) => void): (bytes: number) => void {
  let [isAsked, total] = [false, 0]
  return bytes => {
    if (!isAsked) void sizeOf(programs).then(size => (total = size))
    isAsked = true
    const most = total > bytes ? ` of about ${inMib(total)}` : ''
    say(`copying this host's programs to a disk, once: ${inMib(bytes)}${most} MiB`)
  }
}

/** 0 where it cannot be found out. */
async function sizeOf(programs: readonly string[]): Promise<number> {
  const args = ['-sbc', ...LEFT_OUT.map(path => `--exclude=/${path}`), ...programs]
  const { stdout } = await run('du', args, { env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' } }).catch(
    (error: { stdout?: string }) => ({
      // It fails for one file that vanished, and still says the rest.
      stdout: error.stdout ?? '',
    }),
  )
  return Number(/^(\d+)\ttotal$/m.exec(stdout)?.[1] ?? 0)
}

/** Differs when programs of the host do. */
export async function stateOfPrograms(hostRoot = '/'): Promise<string> {
  const inLocal = (await namesIn(join(hostRoot, 'usr/local/lib'))).map(name => join('usr/local/lib', name)).sort()
  const folders = [...FOLDERS, ...inLocal]
  const states = await Promise.all([
    ...folders.map(path => stateOf(join(hostRoot, path), 1)),
    ...RECORDS.map(path => contentState(join(hostRoot, path))),
  ])
  const all = JSON.stringify([LEFT_OUT, COMPRESSION, READABLE, folders, states])
  return createHash('sha256').update(all).digest('hex').slice(0, 16)
}
