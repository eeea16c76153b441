// The requests that wait for an answer, in the order in which they came.
import type { ApprovalInfo } from '@sandglass/sdk'

/** `over` is aborted when the request no longer waits: it was answered elsewhere, or has expired. */
export type WaitingRequest = { readonly approval: ApprovalInfo; readonly over: AbortSignal }

export class Waiting {
  readonly #requests = new Map<string, { approval: ApprovalInfo; over: AbortController }>()
  #changed = Promise.withResolvers<void>()
  #failure: { error: unknown } | undefined

  /** Takes the newest state of a request. */
  learn(approval: ApprovalInfo): void {
    if (approval.status !== 'pending') this.drop(approval.id)
    else if (!this.#requests.has(approval.id)) this.#requests.set(approval.id, { approval, over: new AbortController() })
    this.#changed.resolve()
  }

  drop(id: string): void {
    this.#requests.get(id)?.over.abort()
    this.#requests.delete(id)
  }

  /** Makes every `next` reject, since no further request can come. */
  fail(error: unknown): void {
    this.#failure = { error }
    for (const { over } of this.#requests.values()) over.abort()
    this.#changed.resolve()
  }

  /** The request that has waited longest; it stays until it is dropped. */
  async next(): Promise<WaitingRequest> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure.error
      const [first] = this.#requests.values()
      if (first !== undefined) return { approval: first.approval, over: first.over.signal }
      this.#changed = Promise.withResolvers<void>()
      await this.#changed.promise
    }
  }
}
