// Where a program of the system is.
import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** SECURITY: fixed folders: what runs as root must not depend on who set PATH. */
const PROGRAM_DIRS = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

export function findProgram(name: string): string | null {
  return PROGRAM_DIRS.map(dir => join(dir, name)).find(path => existsSync(path)) ?? null
}
