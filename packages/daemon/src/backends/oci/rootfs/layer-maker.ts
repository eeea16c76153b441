// Layers for image builds: the changes of a machine that has stopped, files of an image, and this host's own programs. `launcher capture` writes
// them as tars.
import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Readable, Transform } from 'node:stream'
import { SandglassError } from '@sandglass/contract/tables'
import { nullIfMissing } from '../../../lib/missing-file.ts'
import type { LayeredImage, TrustedCa } from '../../backend.ts'
import type { FileCopy, LayerLimits, LayerMaker } from '../../image-builds.ts'
import { jobLine, spawnLauncher } from '../../launcher/exchange.ts'
import { type CaptureJob, CaptureResult } from '../../launcher/schema.ts'
import { unsupported } from '../../machine/refusals.ts'
import { prepareHost } from '../../rootfs/host-image.ts'
import { certificatesIn } from '../../rootfs/trust/der.ts'
import { subjectHash } from '../../rootfs/trust/subject-hash.ts'
import { diskImage } from '../launcher/jobs.ts'
import type { OciPaths } from '../paths.ts'
import type { Host } from '../probe.ts'
import { readRecord } from '../record.ts'
import type { RootImages } from './root-images.ts'

/** Paths that Sandglass adds to every sandbox, or that exist only while it runs. A layer leaves them out. */
const OURS = [
  '.sandglass',
  '.sandglass-run',
  'dev',
  'proc',
  'run',
  'sys',
  'etc/hostname',
  'etc/hosts',
  'etc/mtab',
  'etc/resolv.conf',
]
/** Files with the certificate authority of the daemon. In bundles, the certificate alone is left out. */
const OUR_CERTIFICATES = ['etc/ssl/sandglass', 'etc/ssl/certs/sandglass.pem', 'usr/local/share/ca-certificates/sandglass.crt']
const NOTHING = { disk: null, files: null, host: [], ids: [], excluded: [], certificate: '' }
/** An overlay layer of an image is the first layer of its root filesystem. */
const UPPER = 'upper/0'
const MAX_COMPLAINT = 64 * 1024

export interface LayerMakerContext {
  readonly paths: OciPaths
  readonly images: RootImages
  readonly launcher: string
  host(): Promise<Host>
}

export function layerMaker(context: LayerMakerContext): LayerMaker {
  const { paths, images, launcher } = context
  const pack = (image: string, job: Omit<CaptureJob, 'max_entries' | 'max_bytes'>, limits: LayerLimits, signal: AbortSignal) =>
    captured(launcher, image, { ...job, max_entries: limits.maxEntries, max_bytes: limits.maxBytes }, signal)
  return {
    async check() {
      requireDisks(await context.host())
    },
    find: (image, wanted, signal) => images.find(image, wanted, signal),
    async changes(id, trust, limits, signal) {
      const [host, record] = [await context.host(), await readRecord(paths.session(id))]
      if (record === null) throw new SandglassError('INTERNAL', { message: `the machine ${id} has no record` })
      const disk = { image: diskImage(paths, id), folder: UPPER, mount: await mountPoint(paths) }
      const job = { ...NOTHING, disk, ids: host.pool.ranges(record.slot), ...leftOut(trust) }
      return pack('of the build', job, limits, signal)
    },
    async files(image, copy, limits, signal) {
      return pack(image.reference, { ...NOTHING, files: await filesOf(context, image, copy, signal) }, limits, signal)
    },
    async host() {
      const { name, layers } = await prepareHost(paths.images, null)
      const host = layers.map(({ source, target }) => ({ source, target: target.slice(1) }))
      const excluded = [...OURS, ...host.map(({ target }) => target).filter(target => target !== '')]
      // The folders of programs are left out of the first folder, which has them as mount points, and written after it.
      const job = { ...NOTHING, host, excluded }
      return { key: `${name} ${await programsMark()}`, read: (limits, signal) => pack('host', job, limits, signal) }
    },
  }
}

/** Changes when a package is installed or removed. */
const MARKS = ['/usr/bin', '/usr/lib', '/usr/local/bin', '/var/lib/dpkg/status', '/var/lib/rpm', '/lib/apk/db/installed']

async function programsMark(): Promise<string> {
  const times = MARKS.map(async path => (await stat(path).catch(nullIfMissing))?.mtimeMs ?? 0)
  return (await Promise.all(times)).join(' ')
}

function requireDisks({ mkfs, noWritableRoot }: Host): void {
  if (noWritableRoot !== null)
    throw unsupported(
      `building images without a Docker engine: ${noWritableRoot}`,
      'run the daemon as root, or use a Docker engine',
    )
  if (mkfs === null)
    throw unsupported(
      'building images without a Docker engine: the disks of sessions are in memory here',
      'install e2fsprogs (mkfs.ext4) and allow loop devices, or use a Docker engine',
    )
}

function leftOut(trust: TrustedCa | null): Pick<CaptureJob, 'excluded' | 'certificate'> {
  if (trust === null) return { excluded: OURS, certificate: '' }
  const hashed = certificatesIn(trust.certificate).map(der => `etc/ssl/certs/${subjectHash(der)}.0`)
  return { excluded: [...OURS, ...OUR_CERTIFICATES, ...hashed], certificate: trust.certificate }
}

async function filesOf(
  { paths, images }: LayerMakerContext,
  image: LayeredImage,
  { sources, into, intoFolder, parents, owner, mode }: FileCopy,
  signal: AbortSignal,
): Promise<CaptureJob['files']> {
  const stack = await images.stackOf(image, signal)
  return { stack, mount: await mountPoint(paths), sources, into, into_folder: intoFolder, parents, owner, mode }
}

/** Each launcher mounts there in its own mount namespace. */
async function mountPoint({ run }: OciPaths): Promise<string> {
  const folder = join(run, 'capture')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  return folder
}

/** An abort kills the launcher, which unmounts what it mounted. */
function captured(launcher: string, image: string, job: CaptureJob, signal: AbortSignal): Readable {
  const child = spawnLauncher(launcher, ['capture'], 'pipe')
  let complaint = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-MAX_COMPLAINT)
  })
  const kill = () => child.kill('SIGKILL')
  const ended = new Promise<void>(resolve => child.once('error', () => resolve()).once('close', () => resolve()))
  const tar = new Transform({
    highWaterMark: 1024 * 1024,
    transform: (chunk, _encoding, done) => done(null, chunk),
    // The result comes after the tar: without it, the tar may be incomplete.
    flush: done => void ended.then(() => done(signal.aborted ? (signal.reason as Error) : failure(image, complaint, job))),
  })
  signal.addEventListener('abort', kill, { once: true })
  tar.once('close', () => {
    signal.removeEventListener('abort', kill)
    kill()
  })
  if (signal.aborted) kill()
  child.stdout.on('error', error => tar.destroy(error))
  child.stdout.pipe(tar)
  child.stdin.end(jobLine(job))
  return tar
}

function failure(image: string, complaint: string, { max_bytes, max_entries }: CaptureJob): SandglassError | null {
  const result = resultIn(complaint)
  if (result?.ok) return null
  const issue = result
    ? [result.entry, result.issue].filter(Boolean).join(': ')
    : complaint.trim() || 'the launcher gave no result'
  switch (result?.code) {
    case 'invalid':
      return new SandglassError('IMAGE_INVALID', { image, issue })
    case 'too_many_entries':
      return new SandglassError('IMAGE_TOO_LARGE', { image, what: 'entries', max: max_entries })
    case 'too_many_bytes':
      return new SandglassError('IMAGE_TOO_LARGE', { image, what: 'bytes', max: max_bytes })
    default:
      return new SandglassError('INTERNAL', { message: `a layer could not be written: ${issue}` })
  }
}

function resultIn(complaint: string): CaptureResult | null {
  try {
    return CaptureResult.safeParse(JSON.parse(complaint.trimEnd().split('\n').at(-1) ?? '')).data ?? null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
