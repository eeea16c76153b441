// GET /v1/ca and its rotation.
import type { CertificateAuthority } from '@sandglass/contract'
import { shownAuthority } from '../../egress/authorities.ts'
import type { Logger } from '../../log.ts'
import type { SessionContext } from '../context.ts'

export const currentAuthority = async ({ egress }: SessionContext): Promise<CertificateAuthority> =>
  shownAuthority(await egress.authorities.current())

/** Sessions trust the new authority from their next start on. The egress process keeps those that running machines trust. */
export async function rotateAuthority(context: SessionContext, log: Logger): Promise<CertificateAuthority> {
  const { authorities, supervisor } = context.egress
  const made = await authorities.rotate()
  log.info({ fingerprint: made.fingerprint }, 'certificate authority rotated')
  await pruneAuthorities(context)
  await supervisor.reconfigure()
  return shownAuthority(made)
}

export async function pruneAuthorities(context: SessionContext): Promise<void> {
  const trusted = context.live.all().flatMap(({ record }) => record.ca_fingerprint ?? [])
  await context.egress.authorities.prune(new Set(trusted))
}
