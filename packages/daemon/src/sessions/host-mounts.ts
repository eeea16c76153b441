// Folders of the host that a session asks to see.
import { lstat, realpath } from 'node:fs/promises'
import { posix } from 'node:path'
import { type Config, SandglassError, type SessionSpec } from '@sandglass/contract'
import type { HostMount } from '../backends/backend.ts'

/** Places that are the sandbox's own; a mount on or above them would take them away. */
const TAKEN = [
  '/',
  '/proc',
  '/sys',
  '/dev',
  '/run',
  '/tmp',
  '/etc',
  '/usr',
  '/bin',
  '/lib',
  '/.sandglass',
  '/home/sandbox',
  '/workspace',
]

/**
 * The mounts with the paths that they lead to, or a refusal. SECURITY: only what lies below a configured root is ever shown, links
 * followed first: a session that may write below a root could put a link there for the next one.
 */
export async function allowedMounts(
  config: Pick<Config, 'mount_roots'>,
  wanted: SessionSpec['mounts'] = [],
): Promise<HostMount[]> {
  const roots = await Promise.all(config.mount_roots.map(root => realpath(root).catch(() => null)))
  const mounts = await Promise.all(
    wanted.map(async ({ source, target, readonly }) => ({
      source: await resolved(source),
      target: posix.normalize(target),
      readonly,
    })),
  )
  for (const { source, target } of mounts) {
    if (!roots.some(root => root !== null && `${source}/`.startsWith(`${root}/`)))
      throw refused(`a mount of ${source}: it is not below mount_roots of the configuration`)
    if (!(await lstat(source)).isDirectory()) throw refused(`a mount of ${source}: it is not a folder`)
    if (
      TAKEN.some(place => `${place}/`.startsWith(`${target.replace(/\/$/, '')}/`)) ||
      target.startsWith('/.sandglass') ||
      /^\/(proc|sys|dev)\//.test(target)
    )
      throw refused(`a mount at ${target}: that place is the sandbox's own`)
    if (mounts.filter(other => other.target === target).length > 1) throw refused(`two mounts at ${target}`)
  }
  return mounts
}

async function resolved(source: string): Promise<string> {
  try {
    return await realpath(source)
  } catch (error) {
    throw new SandglassError('INVALID_REQUEST', { issue: `mounts: ${source}: ${(error as Error).message}` })
  }
}

const refused = (what: string) => new SandglassError('UNSUPPORTED', { what })
