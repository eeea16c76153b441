// The paths of machines below the data folder, the same for every backend.
import { join } from 'node:path'
import { SandglassError } from '@sandglass/contract/tables'
import { egressSocketFolder } from './egress-endpoint.ts'

/** Longest path of a unix socket, without its terminating NUL. */
const SOCKET_PATH_BYTES = 107
const ID = /^[a-z0-9][a-z0-9_-]{0,63}$/

export interface MachinePaths {
  readonly dataDir: string
  readonly sessions: string
  readonly run: string
  readonly images: string
  isId(name: string): boolean
  session(id: string): string
  /** Path of a socket of a machine; `name` is not longer than `longest` of machinePaths. */
  socketOf(id: string, name: string): string
  /** Path of the socket that the egress process connects to. */
  egressSocket(id: string): string
}

/** `longest` is the longest name of a socket. Throws when the path of the data folder is too long for it. */
export function machinePaths(dataDir: string, longest: string): MachinePaths {
  const [run, sessions, egress] = [join(dataDir, 'run'), join(dataDir, 'sessions'), egressSocketFolder(dataDir)]
  const id = `sess_${'x'.repeat(16)}`
  const sample = Math.max(Buffer.byteLength(join(run, `${id}.${longest}`)), Buffer.byteLength(join(egress, id)))
  if (sample > SOCKET_PATH_BYTES) {
    const most = SOCKET_PATH_BYTES - sample + Buffer.byteLength(dataDir)
    throw new SandglassError('CONFIG_INVALID', {
      source: 'data_dir',
      issue: `${dataDir} is too long for unix sockets below it: at most ${most} bytes`,
    })
  }
  return {
    dataDir,
    sessions,
    run,
    images: join(dataDir, 'images'),
    isId: isMachineId,
    session: id => join(sessions, checked(id)),
    socketOf: (id, name) => join(run, `${checked(id)}.${name}`),
    egressSocket: id => join(egress, checked(id)),
  }
}

export const isMachineId = (name: string): boolean => ID.test(name)

/** SECURITY: ids become parts of paths. This check stands even if callers have checked: no id may lead out of the data folder. */
export function checked(id: string): string {
  if (!isMachineId(id)) throw new SandglassError('INTERNAL', { message: `not a machine id: ${JSON.stringify(id)}` })
  return id
}
