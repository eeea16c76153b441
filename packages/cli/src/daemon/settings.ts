// The part of the configuration that a client needs: the address of the daemon and the key. The daemon checks the rest.
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { DATA_FILES, makeConfigFile, ownConfigFile, SandglassError, yamlIssue } from '@sandglass/contract/tables'
import { resolveDataDir } from '@sandglass/sdk/node'
import type { Environment } from '../command.ts'

/** Not imported, since an import is slower: see output/table.ts. */
const { closeSync, fstatSync, openSync, readFileSync } = process.getBuiltinModule('node:fs')

export type Settings = {
  configPath: string
  /** The configuration has addresses. Without them, a daemon that is started from here listens on its socket only. */
  hasListen: boolean
  dataDir: string
  /** A unix socket, or the URL of a daemon that the command line does not start. */
  address: { socketPath: string } | { url: string }
  /** The key of the configuration. Without one, the daemon has a key of its own in dataDir. */
  apiKey: string | undefined
}

type FileKeys = { data_dir?: unknown; api_key?: unknown; listen?: unknown }

export async function loadSettings(flag: string | undefined, env: Environment): Promise<Settings> {
  const home = env.HOME || homedir()
  const named = flag ?? env.SANDGLASS_CONFIG
  const configPath = resolve(named ?? join(home, '.sandglass', 'config.yaml'))
  const text = readConfigFile(configPath)
  if (text === undefined && named !== undefined)
    throw new SandglassError('CONFIG_INVALID', { source: configPath, issue: 'does not exist', next: makeConfigFile(configPath) })
  const file = text === undefined ? {} : await parseFile(configPath, text)
  const dataDir = resolveDataDir(env.SANDGLASS_DATA_DIR ?? string(file.data_dir), home)
  const listen = env.SANDGLASS_LISTEN?.split(',') ?? list(file.listen)
  return {
    configPath,
    hasListen: listen !== undefined,
    dataDir,
    address: env.SANDGLASS_URL ? { url: env.SANDGLASS_URL } : addressOf(listen ?? ['unix'], dataDir, env.SANDGLASS_SOCKET),
    apiKey: env.SANDGLASS_API_KEY ?? string(file.api_key),
  }
}

/** The data folder of a daemon without a configuration file. */
export const defaultDataDir = (env: Environment): string => resolveDataDir(env.SANDGLASS_DATA_DIR, env.HOME || homedir())

/** The key of the daemon that uses this data folder; undefined before its first start. Root may use the daemon of another user. */
export function readApiKey(dataDir: string): string | undefined {
  return readPrivate(join(dataDir, DATA_FILES.apiKey))?.trim()
}

function addressOf(listen: readonly string[], dataDir: string, socket: string | undefined): Settings['address'] {
  if (socket) return { socketPath: resolve(socket) }
  const first = listen.find(entry => entry === 'unix' || entry.startsWith('unix:')) ?? listen[0] ?? 'unix'
  if (first === 'unix') return { socketPath: join(dataDir, DATA_FILES.socket) }
  if (first.startsWith('unix:')) return { socketPath: resolve(first.slice('unix:'.length)) }
  return { url: `http://${first.replace(/^(0\.0\.0\.0|\[::\])(?=:)/, '127.0.0.1')}` }
}

/** The text of a configuration file, which must belong to the user, as the daemon requires; undefined if it does not exist. */
export const readConfigFile = (path: string): string | undefined => readPrivate(path, process.geteuid?.())

/** SECURITY: mode and owner are read from the open file, so that it cannot be replaced between the check and the read. */
function readPrivate(path: string, userId?: number): string | undefined {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new SandglassError(
      'CONFIG_INVALID',
      { source: path, issue: `cannot be read: ${(error as Error).message}`, next: ownConfigFile(path) },
      { cause: error },
    )
  }
  try {
    const stats = fstatSync(fd)
    // Checked before the mode, so that the user is not told to change the mode of a folder.
    if (stats.isDirectory()) throw new SandglassError('CONFIG_INVALID', { source: path, issue: 'is a folder, not a file' })
    const { mode, uid } = stats
    if ((mode & 0o077) !== 0) throw new SandglassError('CONFIG_INSECURE', { path, mode: (mode & 0o777).toString(8) })
    if (userId !== undefined && uid !== userId)
      throw new SandglassError('CONFIG_INVALID', {
        source: path,
        issue: `belongs to user ${uid}, not to you`,
        next: ownConfigFile(path),
      })
    return readFileSync(fd, 'utf8')
  } finally {
    closeSync(fd)
  }
}

/** Loads yaml only if there is a file. SECURITY: messages of yaml quote the file, which holds keys, so they are not shown. */
async function parseFile(path: string, text: string): Promise<FileKeys> {
  const { parse } = await import('yaml')
  try {
    const value: unknown = parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch (error) {
    throw new SandglassError('CONFIG_INVALID', { source: path, issue: yamlIssue(text, error) })
  }
}

const string = (value: unknown) => (typeof value === 'string' ? value : undefined)
const list = (value: unknown) =>
  Array.isArray(value) ? value.filter(item => typeof item === 'string') : typeof value === 'string' ? value.split(',') : undefined
