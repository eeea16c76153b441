// What a build is known by: everything that decides its result, as far as it can be known beforehand.
import { createHash } from 'node:crypto'
import { ARCHITECTURE } from '../manifest.ts'

export interface KeyParts {
  /** With the ids of images in place of their names. */
  readonly dockerfile: string
  /** Null for a build without files. */
  readonly contextDigest: string | null
  readonly buildArgs: Readonly<Record<string, string>>
  readonly network: string
}

/** SECURITY: arguments are in it as one digest with the rest, so that a stored key tells nothing about them. */
export function buildKey({ dockerfile, contextDigest, buildArgs, network }: KeyParts): string {
  const args = Object.entries(buildArgs).sort(([a], [b]) => (a < b ? -1 : 1))
  const parts = ['1', ARCHITECTURE, dockerfile, contextDigest, args, network]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}
