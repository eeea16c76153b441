// The image `host` as a disk: the same files as on every other backend, copied once into a compressed read-only filesystem.
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmod, lstat, mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { prepareHost } from '../host-image.ts'
import { isMissing } from '../missing-file.ts'

/** What no program needs to run. */
const LEFT_OUT = [
  ...['doc', 'man', 'info', 'help', 'gtk-doc', 'locale', 'lintian', 'bug'].map(name => `usr/share/${name}`),
  ...['usr/src', 'usr/lib/debug', 'usr/lib/modules', 'usr/lib/firmware', 'lib/modules', 'lib/firmware'],
]
/** Folders whose time changes when a program is installed or removed, and the records of package managers. */
const TELLTALES = [
  ...[
    '/usr',
    '/usr/bin',
    '/usr/sbin',
    '/usr/lib',
    '/usr/libexec',
    '/usr/local',
    '/usr/local/bin',
    '/usr/local/sbin',
    '/usr/local/lib',
  ],
  ...['/bin', '/sbin', '/lib', '/var/lib/dpkg/status', '/var/lib/rpm', '/lib/apk/db/installed', '/var/lib/pacman/local'],
]
const COMPRESSION = ['-comp', 'lz4', '-noI', '-b', '128K']
// SECURITY: what others may not read on the host is not copied at all, and owners are not told.
const READABLE = [
  ...['-action', 'prune@type(d) && !perm(-o=rx)'],
  ...['-action', 'exclude@type(f) && !perm(-o=r)'],
  ...['-action', 'exclude@!type(f) && !type(d) && !type(l)'],
]
const MEMORY = '512M'
const REPORT_MS = 3000
const MIB = 1024 * 1024

/** Path of the disk, made on first use and again when programs were installed. Takes seconds then; `say` is told how far it is. */
export async function prepareHostDisk(
  mksquashfs: string,
  dirs: { readonly images: string; readonly disks: string },
  signal: AbortSignal,
  say: (step: string) => void,
): Promise<string> {
  const { name, layers } = await prepareHost(dirs.images)
  const path = join(dirs.disks, `${name}-${await stateOfPrograms()}.sqfs`)
  if (await exists(path)) return path
  await mkdir(dirs.disks, { recursive: true, mode: 0o700 })
  const skeleton = layers.find(layer => layer.target === '/')?.source ?? ''
  const programs = layers.filter(layer => layer.target !== '/').map(layer => layer.source)
  const shown = new Set(programs.map(source => basename(source)))
  const sources = [
    ...(await readdir(skeleton)).filter(entry => !shown.has(entry)).map(entry => join(skeleton, entry)),
    ...programs,
  ]
  const building = `${path}.${process.pid}.new`
  try {
    await build(mksquashfs, sources, building, signal, say)
    await chmod(building, 0o644)
    await rename(building, path)
  } finally {
    await rm(building, { force: true })
  }
  return path
}

async function build(
  mksquashfs: string,
  sources: readonly string[],
  target: string,
  signal: AbortSignal,
  say: (step: string) => void,
): Promise<void> {
  const options = [
    '-noappend',
    '-no-progress',
    '-quiet',
    '-no-recovery',
    '-no-xattrs',
    '-no-duplicates',
    '-all-root',
    '-root-mode',
    '755',
  ]
  const args = [...sources, target, ...options, '-mem', MEMORY, ...COMPRESSION, ...READABLE, '-wildcards', '-e', ...LEFT_OUT]
  say("copying this host's programs into a disk image, once")
  const child = spawn(mksquashfs, args, { stdio: ['ignore', 'ignore', 'pipe'], signal, env: { PATH: '/usr/bin:/bin' } })
  const report = setInterval(() => {
    stat(target).then(
      ({ size }) => say(`copying this host's programs into a disk image: ${Math.round(size / MIB)} MiB`),
      () => undefined, // not there yet
    )
  }, REPORT_MS)
  try {
    await ended(child)
  } finally {
    clearInterval(report)
  }
}

function ended(child: ChildProcess): Promise<void> {
  let complaint = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-2000)
  })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', code => (code === 0 ? resolve() : reject(new Error(`mksquashfs failed: ${complaint}`))))
  })
}

async function stateOfPrograms(): Promise<string> {
  const inLocal = (await readdir('/usr/local/lib').catch(none)).map(name => join('/usr/local/lib', name))
  const hash = createHash('sha256').update(JSON.stringify([LEFT_OUT, COMPRESSION, READABLE]))
  for (const path of [...TELLTALES, ...inLocal.toSorted()]) hash.update(`${path} ${(await stat(path).catch(missing))?.mtimeMs}\n`)
  return hash.digest('hex').slice(0, 12)
}

async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(missing)) !== null
}

function missing(error: unknown): null {
  if (isMissing(error)) return null
  throw error
}

function none(error: unknown): string[] {
  if (isMissing(error)) return []
  throw error
}
