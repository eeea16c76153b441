import { collect, PAGE_SIZE, paged } from './transport/pages.ts'
import type { Transport } from './transport/transport.ts'
import type { Cancel, SecretInfo, SecretOptions } from './wire-types.ts'

/** Secrets: values that the daemon stores encrypted. They can be replaced and removed, but not read. */
export class Secrets {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /**
   * Stores a value with its settings, or replaces the secret of that name. A session can use a secret that has a scope: give `scopes` or a
   * `preset`. Of kind aws, the value is a JSON object with access_key_id, secret_access_key and, if there is one, session_token.
   */
  set(name: string, value: string, { signal, ...settings }: SecretOptions & Cancel = {}): Promise<SecretInfo> {
    return this.#transport.json('putSecret', { params: { name }, body: { value, ...settings }, signal })
  }

  /** Replaces the value and keeps the settings. Running sessions use the new value at once; what they see stays the same. */
  rotate(name: string, value: string, { signal }: Cancel = {}): Promise<SecretInfo> {
    return this.#transport.json('rotateSecret', { params: { name }, body: { value }, signal })
  }

  /** All names with their settings and times. */
  list({ signal }: Cancel = {}): Promise<SecretInfo[]> {
    return collect(paged(cursor => this.#transport.json('listSecrets', { query: { limit: PAGE_SIZE, cursor }, signal })))
  }

  async remove(name: string, { signal }: Cancel = {}): Promise<void> {
    await this.#transport.json('deleteSecret', { params: { name }, signal })
  }
}
