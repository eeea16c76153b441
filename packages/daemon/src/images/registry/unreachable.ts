// A registry that no answer comes from: what is wrong, in words, and what helps.
import { SandglassError } from '@sandglass/contract'
import { RefusedAddress } from './addresses.ts'

/** `where` is told when it is not the registry itself that fails. */
export function unreachable(registry: string, where: string, error: unknown): SandglassError {
  const { code = '', message } = error as NodeJS.ErrnoException
  const why = `${where === '' ? '' : `${where}: `}${tlsReason(message) ?? (message || code || 'cannot be reached')}`
  const next = error instanceof RefusedAddress ? 'name a registry by an address of its own' : nextStep(registry, code)
  return new SandglassError('REGISTRY_FAILED', next === undefined ? { registry, why } : { registry, why, next }, { cause: error })
}

const NOT_TLS = new Set(['EPROTO', 'ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG'])
const NOBODY = new Set(['ENOTFOUND', 'EAI_AGAIN', 'ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT'])
const STRANGER = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

function nextStep(registry: string, code: string): string | undefined {
  // A plain-http registry that is spoken to with TLS, the usual mistake.
  if (NOT_TLS.has(code))
    return `if it has no TLS, say so: registries: { '${registry}': { plain_http: true } } in the configuration`
  if (STRANGER.has(code)) return `name its authority: registries: { '${registry}': { ca_file: PATH } } in the configuration`
  if (NOBODY.has(code))
    return 'check the name, the network of this machine, and registries in the configuration; `sandglass image import` needs no registry'
  return undefined
}

/** OpenSSL's own text has addresses and files of its source around the reason. */
function tlsReason(message: string): string | undefined {
  const reason = /:error:[0-9a-f]+:[^:]*:[^:]*:([^:]+)/i.exec(message)?.[1]
  return reason === undefined ? undefined : `TLS failed: ${reason.trim()}`
}
