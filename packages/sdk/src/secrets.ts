import type { Transport } from './transport/transport.ts'
import type { Cancel, SecretInfo } from './wire-types.ts'

/** Secrets: values that the daemon stores encrypted. They can be replaced and removed, but not read. */
export class Secrets {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Stores a value, or replaces the one of that name. */
  put(name: string, value: string, { signal }: Cancel = {}): Promise<SecretInfo> {
    return this.#transport.json('putSecret', { params: { name }, body: { value }, signal })
  }

  /** All names with their times. */
  async list({ signal }: Cancel = {}): Promise<SecretInfo[]> {
    const found: SecretInfo[] = []
    let cursor: string | undefined
    do {
      const page = await this.#transport.json('listSecrets', { query: { limit: 200, cursor }, signal })
      found.push(...page.items)
      cursor = page.nextCursor ?? undefined
    } while (cursor !== undefined)
    return found
  }

  async remove(name: string, { signal }: Cancel = {}): Promise<void> {
    await this.#transport.json('deleteSecret', { params: { name }, signal })
  }
}
