// `session.network`.
import { toCamel } from '../transport/case.ts'
import { follow, readToEnd } from '../transport/resume-events.ts'
import type { Transport } from '../transport/transport.ts'
import type { Cancel, NetworkEntry, NetworkLogOptions, PolicyOptions, SessionInfo, SessionPolicies } from '../wire-types.ts'

/** What a session has sent over the network, and what it may send. */
export class SessionNetwork {
  #transport: Transport
  #id: string
  #learn: (info: SessionInfo) => SessionInfo

  /** `learn` gets the state of the session in each reply that has it. */
  constructor(transport: Transport, id: string, learn: (info: SessionInfo) => SessionInfo) {
    this.#transport = transport
    this.#id = id
    this.#learn = learn
  }

  /** The network log, oldest entry first. With `follow`, new entries come as they are written, until the session ends. */
  async *log({ signal, ...query }: NetworkLogOptions & Cancel = {}): AsyncGenerator<NetworkEntry, void, undefined> {
    const call = { params: { id: this.#id }, query, signal }
    const isLast = (event: { type: string }) => event.type === 'end'
    const events = query.follow
      ? follow(this.#transport, 'networkLog', { ...call, isLast })
      : readToEnd(this.#transport, 'networkLog', call)
    for await (const { type, data } of events) if (type === 'entry') yield toCamel(JSON.parse(data)) as NetworkEntry
  }

  /** The network log as text, one line per entry. SECURITY: programs in the sandbox choose parts of it, such as URLs. */
  async logText({ signal }: Cancel = {}): Promise<string> {
    return (await this.#transport.open('networkLogFile', { params: { id: this.#id }, signal })).text()
  }

  /** A policy that allows what the session has sent so far. Read it before you store it: programs in the sandbox chose what is in it. */
  suggestPolicy({ signal }: Cancel = {}): Promise<PolicyOptions> {
    return this.#transport.json('suggestPolicy', { params: { id: this.#id }, signal }) as Promise<PolicyOptions>
  }

  /** Replaces the policies, the mode or both. Open connections that are no longer allowed are cut. */
  async setPolicies({ signal, ...changes }: SessionPolicies & Cancel): Promise<SessionInfo> {
    return this.#learn(await this.#transport.json('setSessionPolicies', { params: { id: this.#id }, body: changes, signal }))
  }
}
