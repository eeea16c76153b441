// Where machines are below the data folder, whatever makes them.
import { join } from 'node:path'
import { SandglassError } from '@sandglass/contract/tables'

/** Longest path the kernel takes for a unix socket, without its end mark. */
const SOCKET_PATH_BYTES = 107
const ID = /^[a-z0-9][a-z0-9_-]{0,63}$/

export interface MachinePaths {
  readonly dataDir: string
  readonly sessions: string
  readonly run: string
  readonly images: string
  isId(name: string): boolean
  session(id: string): string
  /** A socket of a machine; `name` is one of those that the paths were made for. */
  socketOf(id: string, name: string): string
}

/** `longest` is the longest name of a socket: a data folder with too long a path for it is refused. */
export function machinePaths(dataDir: string, longest: string): MachinePaths {
  const [run, sessions] = [join(dataDir, 'run'), join(dataDir, 'sessions')]
  const sample = Buffer.byteLength(join(run, `sess_${'x'.repeat(16)}.${longest}`))
  if (sample > SOCKET_PATH_BYTES) {
    const room = SOCKET_PATH_BYTES - sample + Buffer.byteLength(dataDir)
    throw new SandglassError('CONFIG_INVALID', {
      source: 'data_dir',
      issue: `${dataDir} is too long for unix sockets below it: at most ${room} bytes`,
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
  }
}

export const isMachineId = (name: string): boolean => ID.test(name)

/** SECURITY: ids become paths; whatever the caller checked, nothing here may lead out of the data folder. */
export function checked(id: string): string {
  if (!isMachineId(id)) throw new SandglassError('INTERNAL', { message: `not a machine id: ${JSON.stringify(id)}` })
  return id
}
