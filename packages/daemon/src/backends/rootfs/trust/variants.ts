// Names of what is made from an image for sessions that trust the certificate authority. They end with a mark of it, so that the files of an earlier
// one are found and removed.
import { createHash } from 'node:crypto'
import type { TrustedCa } from '../../backend.ts'

/** Changes with the files that trustFiles() makes. */
const VERSION = 1
const VARIANT = /^(.*)-ca-([0-9a-f]{16})$/

/** The name itself for sessions without egress. */
export const variantName = (name: string, trust: TrustedCa | null): string =>
  trust === null ? name : `${name}-ca-${markOf(trust)}`

/** The name without the mark. */
export const plainName = (name: string): string => VARIANT.exec(name)?.[1] ?? name

/** True for a variant that no session gets any more, because it is for another certificate authority. False while the current one is not known. */
export function isOutdated(name: string, trust: TrustedCa | undefined): boolean {
  const mark = VARIANT.exec(name)?.[2]
  return mark !== undefined && trust !== undefined && mark !== markOf(trust)
}

const markOf = ({ fingerprint }: TrustedCa): string =>
  createHash('sha256')
    .update(JSON.stringify([VERSION, fingerprint]))
    .digest('hex')
    .slice(0, 16)
