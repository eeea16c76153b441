// The disks of the image `host`: one with a copy of the host's programs, and a small one with the rest, which changes more often.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { namesIn } from '../../../lib/missing-file.ts'
import type { TrustedCa } from '../../backend.ts'
import { prepareHost } from '../../rootfs/host-image.ts'
import { contentState, stateOf } from '../../rootfs/host-state.ts'
import { COMPRESSION, inMib, makeSquashfs, type SquashfsTools } from './squashfs.ts'

const run = promisify(execFile)

/** Folders that no program needs at run time. */
const LEFT_OUT = [
  ...['doc', 'man', 'info', 'help', 'gtk-doc', 'locale', 'lintian', 'bug'].map(name => `usr/share/${name}`),
  ...['usr/src', 'usr/lib/debug', 'usr/lib/modules', 'usr/lib/firmware', 'lib/modules', 'lib/firmware'],
]
/** Folders that change when a program is installed or removed. */
const FOLDERS = [
  ...['usr', 'usr/bin', 'usr/sbin', 'usr/lib', 'usr/libexec', 'bin', 'sbin', 'lib'],
  ...['usr/local', 'usr/local/bin', 'usr/local/sbin', 'usr/local/lib', 'var/lib/pacman/local'],
]
/** Databases of package managers. */
const RECORDS = [
  ...['var/lib/dpkg/status', 'lib/apk/db/installed'],
  ...['rpmdb.sqlite', 'Packages', 'Packages.db'].map(name => `var/lib/rpm/${name}`),
]
// SECURITY: only world-readable files and folders are copied, and no sockets, pipes or devices.
const READABLE = [
  ...['-action', 'prune@type(d) && !perm(-o=rx)'],
  ...['-action', 'exclude@type(f) && !perm(-o=r)'],
  ...['-action', 'exclude@!type(f) && !type(d) && !type(l)'],
]

export interface HostDisks {
  readonly image: string
  readonly overlay: string
}

/** Makes the disks on first use and after changes to the host's programs. That takes seconds; `report` is called with the progress. */
export async function prepareHostDisks(
  tools: SquashfsTools,
  dirs: { readonly images: string; readonly disks: string },
  trust: TrustedCa | null,
  signal: AbortSignal,
  report: (step: string) => void,
): Promise<HostDisks> {
  const { name, layers } = await prepareHost(dirs.images, trust)
  const [image, overlay] = [`programs-${await stateOfPrograms()}.sqfs`, `${name}.sqfs`]
  const skeleton = layers.find(layer => layer.target === '/')?.source ?? ''
  const programs = layers.filter(layer => layer.target !== '/').map(layer => layer.source)
  const shown = new Set(programs.map(source => basename(source)))
  const rest = (await readdir(skeleton)).filter(entry => !shown.has(entry)).map(entry => join(skeleton, entry))
  await makeSquashfs(tools, rest, join(dirs.disks, overlay), [], signal)
  const onBytes = progressOf(programs, report)
  const options = [...READABLE, '-wildcards', '-e', ...LEFT_OUT]
  await makeSquashfs(tools, programs, join(dirs.disks, image), options, signal, onBytes)
  return { image, overlay }
}

/** Reports the progress. The total is computed in the background and included as soon as it is known. */
function progressOf(programs: readonly string[], report: (step: string) => void): (bytes: number) => void {
  let [isMeasured, total] = [false, 0]
  return bytes => {
    if (!isMeasured) void sizeOf(programs).then(size => (total = size))
    isMeasured = true
    const most = total > bytes ? ` of about ${inMib(total)}` : ''
    report(`copying this host's programs to a disk, once: ${inMib(bytes)}${most} MiB`)
  }
}

/** Total size in bytes; 0 if du fails. */
async function sizeOf(programs: readonly string[]): Promise<number> {
  const args = ['-sbc', ...LEFT_OUT.map(path => `--exclude=/${path}`), ...programs]
  const { stdout } = await run('du', args, { env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' } }).catch(
    (error: { stdout?: string }) => ({
      // du fails if one file vanished, but still prints the total.
      stdout: error.stdout ?? '',
    }),
  )
  return Number(/^(\d+)\ttotal$/m.exec(stdout)?.[1] ?? 0)
}

/** A digest that changes when the host's programs change. */
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
