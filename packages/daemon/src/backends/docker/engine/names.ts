// The names and labels of our containers, volumes and images in an engine that may be shared with others.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'

export const SESSION_LABEL = 'sandglass.session_id'
export const OWNER_LABEL = 'sandglass.owner'
/** The image of the image store that an image of the engine was made from. */
export const IMAGE_LABEL = 'sandglass.image'

/** Distinguishes the containers of this daemon from those of another daemon that uses the same engine. */
export function ownerOf(dataDir: string): string {
  return createHash('sha256').update(`${machineId()}\n${dataDir}`).digest('hex').slice(0, 16)
}

export const containerName = (id: string) => `sandbox-${id.replaceAll('_', '-')}`
export const VOLUMES = ['workspace', 'home', 'sys'] as const
export const volumeName = (id: string, what: (typeof VOLUMES)[number]) => `${containerName(id)}-${what}`

function machineId(): string {
  try {
    return readFileSync('/etc/machine-id', 'utf8').trim()
  } catch (error) {
    if (error instanceof Error && 'code' in error) return hostname()
    throw error
  }
}
