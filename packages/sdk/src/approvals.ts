import { toCamel } from './transport/case.ts'
import { collect, PAGE_SIZE, paged } from './transport/pages.ts'
import { follow } from './transport/resume-events.ts'
import type { Transport } from './transport/transport.ts'
import type { ApprovalAnswer, ApprovalFilter, ApprovalInfo, Cancel } from './wire-types.ts'

/** Requests that sessions in mode ask hold until a person answers. SECURITY: programs in a sandbox choose method and URL. */
export class Approvals {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** All requests that match, the answered ones included. `status: 'pending'` selects those that wait. */
  list({ signal, ...filter }: ApprovalFilter & Cancel = {}): Promise<ApprovalInfo[]> {
    const page = (cursor: string | undefined) => ({ query: { ...filter, limit: PAGE_SIZE, cursor }, signal })
    return collect(paged(cursor => this.#transport.json('listApprovals', page(cursor))))
  }

  /** Lets a request go on. `scope` session also allows later requests to its host in this session, policy adds a rule to the policy. */
  allow(id: string, { signal, ...answer }: ApprovalAnswer & Cancel = {}): Promise<ApprovalInfo> {
    return this.#transport.json('allowApproval', { params: { id }, body: answer, signal })
  }

  /** Refuses a request. `scope` session also refuses later requests to its host in this session. */
  deny(id: string, { signal, ...answer }: Pick<ApprovalAnswer, 'scope'> & Cancel = {}): Promise<ApprovalInfo> {
    return this.#transport.json('denyApproval', { params: { id }, body: answer, signal })
  }

  /** The requests that wait, then each request when it is held, when more requests wait for its answer, and when it is answered or expires. */
  async *follow({ signal }: Cancel = {}): AsyncGenerator<ApprovalInfo, void, undefined> {
    for await (const event of follow(this.#transport, 'approvalEvents', { signal }))
      yield toCamel(JSON.parse(event.data)) as ApprovalInfo
  }
}
