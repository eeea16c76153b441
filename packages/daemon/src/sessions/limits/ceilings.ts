// The upper bounds that the operator sets for the limits of a session.
import { CEILINGS, type Config, LIMITS, SandglassError, unitOf } from '@sandglass/contract'

type Asked = { readonly [Name in (typeof CEILINGS)[number]]?: number | undefined }

export function refuseAboveCeiling({ limits }: Pick<Config, 'limits'>, asked: Asked): void {
  for (const name of CEILINGS) {
    const { raise } = LIMITS[name]
    const [value, max] = [asked[name], limits[raise]]
    if (value === undefined || value <= max) continue
    throw new SandglassError('INVALID_REQUEST', {
      issue: `${name} must be at most ${max}${unitOf(name)}, not ${value}`,
      next: `ask for less, or set limits.${raise} in the configuration, run \`sandglass shutdown\` and try again`,
    })
  }
}
