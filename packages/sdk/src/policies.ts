import { collect, PAGE_SIZE, paged } from './transport/pages.ts'
import type { Transport } from './transport/transport.ts'
import type { Cancel, PolicyCheck, PolicyInfo, PolicyOptions } from './wire-types.ts'

/** Policies: what sessions may reach. Ready-made policies can be read and used, but not changed. */
export class Policies {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Stores a policy, or replaces the one of that name. Running sessions that use it change at once. */
  set(name: string, policy: PolicyOptions, { signal }: Cancel = {}): Promise<PolicyInfo> {
    return this.#transport.json('putPolicy', { params: { name }, body: policy, signal })
  }

  get(name: string, { signal }: Cancel = {}): Promise<PolicyInfo> {
    return this.#transport.json('getPolicy', { params: { name }, signal })
  }

  /** All policies, the ready-made ones included. */
  list({ signal }: Cancel = {}): Promise<PolicyInfo[]> {
    return collect(paged(cursor => this.#transport.json('listPolicies', { query: { limit: PAGE_SIZE, cursor }, signal })))
  }

  /** Removes a policy that no session and no other policy uses. */
  async remove(name: string, { signal }: Cancel = {}): Promise<void> {
    await this.#transport.json('deletePolicy', { params: { name }, signal })
  }

  /** Tells whether a policy allows a request; GET unless `method` is given. Nothing is sent. */
  check(name: string, url: string, { method, signal }: { method?: string } & Cancel = {}): Promise<PolicyCheck> {
    return this.#transport.json('checkPolicy', { params: { name }, body: { url, method }, signal })
  }
}
