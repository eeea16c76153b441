import type { Transport } from './transport/transport.ts'
import type { CaInfo, Cancel } from './wire-types.ts'

/** The certificate authority that signs the certificates that sandboxes see. Its key never leaves the host. */
export class CertificateAuthority {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** `certificate` is PEM. */
  get({ signal }: Cancel = {}): Promise<CaInfo> {
    return this.#transport.json('getCa', { signal })
  }

  /** Makes a new one. Sessions use it from their next start on. */
  rotate({ signal }: Cancel = {}): Promise<CaInfo> {
    return this.#transport.json('rotateCa', { signal })
  }
}
