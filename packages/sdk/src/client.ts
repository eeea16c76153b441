import { Agents } from './agents.ts'
import { Approvals } from './approvals.ts'
import { CertificateAuthority } from './certificate-authority.ts'
import { Contexts } from './contexts.ts'
import { Images } from './images.ts'
import { Policies } from './policies.ts'
import { Secrets } from './secrets.ts'
import { Session } from './session/session.ts'
import { Tasks } from './tasks.ts'
import { toCamel } from './transport/case.ts'
import { collect, PAGE_SIZE, paged } from './transport/pages.ts'
import { follow } from './transport/resume-events.ts'
import { type ClientOptions, createTransport, newIdempotencyKey, type Transport } from './transport/transport.ts'
import { Uploads } from './uploads.ts'
import type { Cancel, Query, Reply, SessionEvent, SessionFilter, SessionInfo, SessionOptions, SessionPage } from './wire-types.ts'

/** A client of the daemon. */
export class SandboxClient {
  readonly images: Images
  readonly policies: Policies
  readonly secrets: Secrets
  readonly approvals: Approvals
  readonly ca: CertificateAuthority
  readonly agents: Agents
  readonly uploads: Uploads
  readonly tasks: Tasks
  readonly contexts: Contexts
  readonly #transport: Transport

  constructor(options: ClientOptions) {
    this.#transport = createTransport(options)
    this.images = new Images(this.#transport)
    this.policies = new Policies(this.#transport)
    this.secrets = new Secrets(this.#transport)
    this.approvals = new Approvals(this.#transport)
    this.ca = new CertificateAuthority(this.#transport)
    this.agents = new Agents(this.#transport)
    this.uploads = new Uploads(this.#transport)
    this.tasks = new Tasks(this.#transport)
    this.contexts = new Contexts(this.#transport)
  }

  /** Resolves once the session runs. A lost request is repeated under the same idempotency key, so that one call creates one session. */
  async createSession(spec: SessionOptions = {}, options: { idempotencyKey?: string } & Cancel = {}): Promise<Session> {
    const { signal, idempotencyKey = newIdempotencyKey() } = options
    return new Session(this.#transport, await this.#transport.json('createSession', { body: spec, idempotencyKey, signal }))
  }

  /** Finds a session by id or name. With `revealEnv`, `info.env` has the values of its environment. */
  async getSession(ref: string, { revealEnv, signal }: { revealEnv?: boolean } & Cancel = {}): Promise<Session> {
    const call = { params: { id: ref }, query: { revealEnv }, signal }
    return new Session(this.#transport, await this.#transport.json('getSession', call))
  }

  /** A session by id or name, without a request to the daemon. */
  session(ref: string): Session {
    return new Session(this.#transport, ref)
  }

  /** All sessions that match. */
  listSessions(filter: SessionFilter & Cancel = {}): Promise<SessionInfo[]> {
    return collect(this.sessions(filter))
  }

  /** All sessions that match, fetched one page at a time. */
  sessions(filter: SessionFilter & Cancel = {}): AsyncGenerator<SessionInfo, void, undefined> {
    return paged(cursor => this.sessionPage({ ...filter, limit: PAGE_SIZE, cursor }))
  }

  /** One page, with the total and the cursor of the next page. */
  sessionPage({ signal, ...query }: Query<'listSessions'> & Cancel = {}): Promise<SessionPage> {
    return this.#transport.json('listSessions', { query, signal })
  }

  /** What creates and starts under way wait for: images that are copied, unpacked or loaded. The query selects one of them. */
  async preparations({ signal, ...query }: Query<'listPreparations'> & Cancel = {}): Promise<Reply<'listPreparations'>['items']> {
    return (await this.#transport.json('listPreparations', { query, signal })).items
  }

  /** State changes of all sessions, starting after `lastEventId`. */
  async *events(options: { lastEventId?: string } & Cancel = {}): AsyncGenerator<SessionEvent, void, undefined> {
    for await (const event of follow(this.#transport, 'events', options)) yield toCamel(JSON.parse(event.data)) as SessionEvent
  }

  health({ signal }: Cancel = {}): Promise<Reply<'healthz'>> {
    return this.#transport.json('healthz', { signal })
  }
}
