// Folders of the host that a session asks to mount.
import { lstat, realpath } from 'node:fs/promises'
import { posix } from 'node:path'
import { type Config, SandglassError } from '@sandglass/contract'
import type { HostMount } from '../../backends/backend.ts'

/** Paths that the sandbox itself uses; a mount on or above them would hide them. */
const RESERVED = [
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

type Roots = { readonly config: Pick<Config, 'mount_roots'>; readonly dataDir: string }

/**
 * The mounts with their sources resolved, or UNSUPPORTED. SECURITY: links are followed first, and only a folder below a configured root is
 * ever mounted: a session that may write below a root could put a link there for the next one.
 */
export async function allowedMounts(context: Roots, wanted: readonly HostMount[]): Promise<HostMount[]> {
  if (wanted.length === 0) return []
  const roots = await Promise.all(context.config.mount_roots.map(root => realpath(root).catch(() => null)))
  const own = await realpath(context.dataDir)
  const mounts = await Promise.all(
    wanted.map(async ({ source, target, readonly }) => ({
      source: await resolved(source),
      target: posix.normalize(target).replace(/(.)\/$/, '$1'),
      readonly,
    })),
  )
  for (const { source, target } of mounts) {
    if (!roots.some(root => root !== null && isBelow(source, root)))
      throw refused(`a mount of ${source}: it is not below mount_roots of the configuration`)
    if (isBelow(source, own) || isBelow(own, source)) throw refused(`a mount of ${source}: the daemon keeps its own files there`)
    if (!(await lstat(source)).isDirectory()) throw refused(`a mount of ${source}: it is not a folder`)
    if (
      RESERVED.some(path => `${path}/`.startsWith(`${target === '/' ? '' : target}/`)) ||
      target.startsWith('/.sandglass') ||
      /^\/(proc|sys|dev)\//.test(target)
    )
      throw refused(`a mount at ${target}: that place is the sandbox's own`)
    if (mounts.filter(other => other.target === target).length > 1) throw refused(`two mounts at ${target}`)
  }
  return mounts
}

/** The stored mounts of a session that starts. SECURITY: a link that has taken the place of a folder since then is not followed. */
export async function stillAllowedMounts(context: Roots, stored: readonly HostMount[]): Promise<HostMount[]> {
  const mounts = await allowedMounts(context, stored)
  for (const [i, { source }] of stored.entries())
    if (mounts[i]?.source !== source) throw refused(`a mount of ${source}: a link is in its place`)
  return mounts
}

const isBelow = (path: string, folder: string) => folder === '/' || path === folder || path.startsWith(`${folder}/`)

async function resolved(source: string): Promise<string> {
  try {
    return await realpath(source)
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException
    const issue = `mounts: ${source} ${CANNOT_BE[code] ?? `cannot be mounted: ${message}`}`
    throw new SandglassError('INVALID_REQUEST', { issue, next: NEEDS_A_FOLDER }, { cause: error })
  }
}

const CANNOT_BE: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist on the host',
  ENOTDIR: 'cannot be mounted: a part of the path is not a folder',
  EACCES: 'cannot be mounted: the daemon may not read it',
  ELOOP: 'is a link that leads to itself',
}
const NEEDS_A_FOLDER = 'a mount shows a folder that is there already, below mount_roots of the configuration'

const refused = (what: string) => new SandglassError('UNSUPPORTED', { what })
