// Reads the configuration file as YAML. The file must belong to the user and be readable by nobody else.
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { ownConfigFile, SandglassError, yamlIssue } from '@sandglass/contract'
import { parse } from 'yaml'

/** Null when the file does not exist. */
export function readConfigFile(path: string, userId: number): Record<string, unknown> | null {
  const text = readPrivate(path, userId)
  if (text === null) return null
  const value: unknown = parseYaml(path, text)
  if (value === null || value === undefined) return {}
  if (typeof value !== 'object' || Array.isArray(value))
    throw new SandglassError('CONFIG_INVALID', { source: path, issue: 'must be a map of keys' })
  return value as Record<string, unknown>
}

/** SECURITY: mode and owner are read from the open file, so that it cannot be replaced between the check and the read. */
function readPrivate(path: string, userId: number): string | null {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw new SandglassError(
      'CONFIG_INVALID',
      { source: path, issue: `cannot be read: ${(error as Error).message}`, next: ownConfigFile(path) },
      { cause: error },
    )
  }
  try {
    const stats = fstatSync(fd)
    if (stats.isDirectory()) throw new SandglassError('CONFIG_INVALID', { source: path, issue: 'is a folder, not a file' })
    const { mode, uid } = stats
    if ((mode & 0o077) !== 0) throw new SandglassError('CONFIG_INSECURE', { path, mode: (mode & 0o777).toString(8) })
    if (uid !== userId)
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

function parseYaml(path: string, text: string): unknown {
  try {
    return parse(text)
  } catch (error) {
    throw new SandglassError('CONFIG_INVALID', { source: path, issue: yamlIssue(text, error) }, { cause: error })
  }
}
