// Where everything of this backend is, below the data folder.
import { join } from 'node:path'
import { SandglassError } from '@sandglass/contract/tables'

/** Longest path the kernel takes for a unix socket, without its end mark. */
const SOCKET_PATH_BYTES = 107
const ID = /^[a-z0-9][a-z0-9_-]{0,63}$/

/** The sockets of one machine: QEMU's monitor, the machine's first process, and the runner's carrier. */
export interface Sockets {
  readonly monitor: string
  readonly control: string
  readonly carrier: string
  /** Only while a machine starts. */
  readonly share: string
}

export interface MicrovmPaths {
  readonly dataDir: string
  readonly sessions: string
  readonly run: string
  /** Where QEMU's root is put together, in a mount namespace of its own. */
  readonly jail: string
  /** Kernels with their initramfs. */
  readonly boot: string
  /** Images as disks. */
  readonly disks: string
  /** Empty session disks, one per size. */
  readonly empty: string
  readonly snapshots: string
  readonly images: string
  isId(name: string): boolean
  session(id: string): string
  sockets(id: string): Sockets
  bootLog(id: string): string
}

export function microvmPaths(dataDir: string): MicrovmPaths {
  const run = join(dataDir, 'run')
  const longest = join(run, `sess_${'x'.repeat(16)}.carrier`)
  if (Buffer.byteLength(longest) > SOCKET_PATH_BYTES) {
    const room = SOCKET_PATH_BYTES - Buffer.byteLength(longest) + Buffer.byteLength(dataDir)
    throw new SandglassError('CONFIG_INVALID', {
      source: 'data_dir',
      issue: `${dataDir} is too long for unix sockets below it: at most ${room} bytes`,
    })
  }
  // SECURITY: ids become paths; whatever the caller checked, nothing here may lead out of the data folder.
  const checked = (id: string) => {
    if (!ID.test(id)) throw new SandglassError('INTERNAL', { message: `not a machine id: ${JSON.stringify(id)}` })
    return id
  }
  const [sessions, images] = [join(dataDir, 'sessions'), join(dataDir, 'images')]
  const session = (id: string) => join(sessions, checked(id))
  return {
    dataDir,
    sessions,
    run,
    jail: join(run, 'jail'),
    boot: join(images, 'boot'),
    disks: join(images, 'disks'),
    empty: join(dataDir, 'disks'),
    snapshots: join(images, 'snapshots'),
    images,
    isId: name => ID.test(name),
    session,
    sockets: id => {
      const socket = (name: string) => join(run, `${checked(id)}.${name}`)
      return { monitor: socket('monitor'), control: socket('control'), carrier: socket('carrier'), share: socket('share') }
    },
    bootLog: id => join(session(id), 'logs', 'boot.log'),
  }
}
