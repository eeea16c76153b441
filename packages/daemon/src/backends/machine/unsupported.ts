import { SandglassError } from '@sandglass/contract/tables'

/** A wish that cannot be had, and the way out if there is one: another flag, the configuration, or something to do to the host. */
export function unsupported(what: string, next?: string): SandglassError<'UNSUPPORTED'> {
  return new SandglassError('UNSUPPORTED', next === undefined ? { what } : { what, next })
}
