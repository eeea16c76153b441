// Limits that the operator lets sessions of a backend go without.
import type { Config } from '@sandglass/contract'

type Allowed = Config['backends']['oci']['allow_unenforced']

/** SECURITY: a backend without a block in the configuration is allowed nothing: what was accepted for another one says nothing about it. */
export function allowedUnenforced({ backends }: Pick<Config, 'backends'>, name: string): Allowed {
  return Object.hasOwn(backends, name) ? backends[name as keyof typeof backends].allow_unenforced : []
}
