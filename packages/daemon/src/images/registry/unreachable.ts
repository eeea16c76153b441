// Turns connection errors into REGISTRY_FAILED with a reason and a next step.
import { SandglassError } from '@sandglass/contract'
import { RefusedAddress } from './addresses.ts'

/** `where` is the failing host if it is not the registry itself, else ''. */
export function unreachable(registry: string, where: string, error: unknown): SandglassError {
  const { code = '', message } = error as NodeJS.ErrnoException
  const why = `${where === '' ? '' : `${where}: `}${tlsReason(message) ?? (message || code || 'connection failed')}`
  const next = error instanceof RefusedAddress ? 'use a registry with another address' : nextStep(registry, code)
  return new SandglassError('REGISTRY_FAILED', next === undefined ? { registry, why } : { registry, why, next }, { cause: error })
}

const NOT_TLS = new Set(['EPROTO', 'ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG'])
const UNREACHABLE = new Set(['ENOTFOUND', 'EAI_AGAIN', 'ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT'])
const UNKNOWN_ISSUER = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

function nextStep(registry: string, code: string): string | undefined {
  // The usual mistake: TLS to a registry that speaks plain HTTP.
  if (NOT_TLS.has(code))
    return `if the registry has no TLS, set registries: { '${registry}': { plain_http: true } } in the configuration`
  if (UNKNOWN_ISSUER.has(code))
    return `set its certificate authority: registries: { '${registry}': { ca_file: PATH } } in the configuration`
  if (UNREACHABLE.has(code))
    return 'check the name, the network of this machine and `registries` in the configuration; `sandglass image import` needs no registry'
  return undefined
}

/** The reason alone: OpenSSL's message also has addresses and source file names. */
function tlsReason(message: string): string | undefined {
  const reason = /:error:[0-9a-f]+:[^:]*:[^:]*:([^:]+)/i.exec(message)?.[1]
  return reason === undefined ? undefined : `TLS failed: ${reason.trim()}`
}
