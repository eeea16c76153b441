import type { AgentName } from '@sandglass/contract/tables'
import { toCamel } from './transport/case.ts'
import { download, downloadText } from './transport/download.ts'
import { collect, PAGE_SIZE, paged } from './transport/pages.ts'
import type { Transport } from './transport/transport.ts'
import type { Cancel, ContextFile, ContextInfo, ContextPage, Query } from './wire-types.ts'

/** Contexts: conversations with agents, by the caller's own keys. */
export class Contexts {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** All contexts, last used first. */
  list({ signal }: Cancel = {}): Promise<ContextInfo[]> {
    return collect(paged(cursor => this.page({ limit: PAGE_SIZE, cursor, signal })))
  }

  /** One page, with the total and the cursor of the next page. */
  page({ signal, ...query }: Query<'listContexts'> & Cancel = {}): Promise<ContextPage> {
    return this.#transport.json('listContexts', { query, signal })
  }

  get(id: string, { signal }: Cancel = {}): Promise<ContextInfo> {
    return this.#transport.json('getContext', { params: { id }, signal })
  }

  /** context.json: the replies so far. SECURITY: texts and events were written by an agent in a sandbox. */
  async file(id: string, { signal }: Cancel = {}): Promise<ContextFile> {
    return toCamel(JSON.parse(await this.fileText(id, { signal }))) as ContextFile
  }

  /** context.json as the daemon keeps it. */
  fileText(id: string, { signal }: Cancel = {}): Promise<string> {
    return downloadText(this.#transport, 'contextFile', { params: { id }, signal })
  }

  /** The folder in which an agent keeps its conversations, as tar. SECURITY: its entries are named by the sandbox; check them before unpacking. */
  state(id: string, agent: AgentName, { signal }: Cancel = {}): Promise<ReadableStream<Uint8Array>> {
    return download(this.#transport, 'contextState', { params: { id, agent }, signal })
  }

  /** The network log of all its sessions, as text. SECURITY: names and paths in it were chosen in a sandbox. */
  networkLog(id: string, { signal }: Cancel = {}): Promise<string> {
    return downloadText(this.#transport, 'contextNetworkLog', { params: { id }, signal })
  }

  /** Removes a context with its session, tasks and files. */
  async remove(id: string, { signal }: Cancel = {}): Promise<void> {
    await this.#transport.json('deleteContext', { params: { id }, signal })
  }
}
