// `connectLocal()`: the daemon of this machine, over its unix socket.
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { DATA_FILES, SandglassError } from '@sandglass/contract/tables'
import type { ClientOptions } from '../transport/transport.ts'
import { connectSocket, type SandboxClient } from './client.ts'
import { type Starting, starting } from './start-once.ts'

/** Not imported: see fetch.ts. */
const { readFileSync } = process.getBuiltinModule('node:fs')

export type LocalOptions = Partial<Omit<ClientOptions, 'baseUrl' | 'address' | 'fetch'>> & {
  /** The data_dir of the daemon; when absent SANDGLASS_DATA_DIR, else ~/.sandglass/data. */
  dataDir?: string
  /** The daemon's socket; the one in its data_dir when absent. */
  socketPath?: string
  /** false: fail with DAEMON_UNREACHABLE where no daemon runs. A function starts the daemon in its own way. */
  start?: boolean | (() => Promise<void>)
}

/**
 * A client of the daemon that the command line uses on this machine, over its unix socket and with its key. The first call connects, and
 * starts the daemon as the command line does if none runs. See `starting` for a daemon that stops later.
 */
export function connectLocal({
  dataDir: given,
  socketPath: socket,
  start = true,
  apiKey,
  ...options
}: LocalOptions = {}): SandboxClient {
  const dataDir = resolveDataDir(given ?? process.env.SANDGLASS_DATA_DIR)
  const socketPath = socket ?? join(dataDir, DATA_FILES.socket)
  const byCommandLine = async () =>
    (await import('./start-daemon.ts')).startDaemon({ dataDir: given && dataDir, socketPath, env: process.env })
  const daemon = start === false ? undefined : starting(start === true ? byCommandLine : start)
  const key = apiKey ?? keyIn(join(dataDir, DATA_FILES.apiKey), socketPath, daemon)
  return connectSocket({ ...options, socketPath, apiKey: key, start: daemon })
}

/** The data folder of a daemon: `given`, where ~ is the home folder, or the default. */
export function resolveDataDir(given: string | undefined, home = homedir()): string {
  if (given === undefined) return join(home, '.sandglass', 'data')
  return resolve(given === '~' || given.startsWith('~/') ? join(home, given.slice(1)) : given)
}

/** Reads the key at the first call: the daemon creates it at its first start. */
function keyIn(path: string, socketPath: string, daemon: Starting | undefined): (signal?: AbortSignal) => Promise<string> {
  let key: string | undefined
  return async signal => {
    key ??= readKey(path, socketPath)
    if (key !== undefined) return key
    if (daemon === undefined)
      throw noKey(path, socketPath, 'so no daemon has run there', 'run a `sandglass` command, or leave out `start: false`')
    await daemon.start(signal)
    key = readKey(path, socketPath)
    if (key !== undefined) return key
    throw noKey(
      path,
      socketPath,
      'although a daemon runs',
      'use the data_dir of that daemon, or the api_key of its configuration',
    )
  }
}

function readKey(path: string, address: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw new SandglassError('DAEMON_UNREACHABLE', { address, why: message }, { cause: error })
  }
}

const noKey = (path: string, address: string, why: string, next: string) =>
  new SandglassError('DAEMON_UNREACHABLE', { address, why: `there is no key in ${path}, ${why}`, next })
