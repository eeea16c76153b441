// Limits that the operator lets sessions of a backend go without.
import type { Config } from '@sandglass/contract'
import type { LimitKind } from '../../backends/backend.ts'

export function allowedUnenforced({ backends }: Config, name: string): readonly LimitKind[] {
  return backends[name as keyof typeof backends]?.allow_unenforced ?? backends.oci.allow_unenforced
}
