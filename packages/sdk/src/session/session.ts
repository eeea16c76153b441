// One session: exec, files, lifecycle.
import { type AgentName, DEFAULT_SHELL, SandglassError } from '@sandglass/contract/tables'
import { base64FromBytes, bytesFromBase64 } from '../transport/base64.ts'
import { toCamel } from '../transport/case.ts'
import { withSession } from '../transport/errors.ts'
import { follow } from '../transport/resume-events.ts'
import { type ByteSocket, openSocket } from '../transport/socket.ts'
import type { Transport } from '../transport/transport.ts'
import type {
  AgentScreen,
  AgentScreenOptions,
  Cancel,
  ExecOptions,
  ExecResult,
  ExecStreamOptions,
  Port,
  ResizeOptions,
  SessionEvent,
  SessionInfo,
  SessionStats,
  StartOptions,
  TerminalSize,
  WriteOptions,
} from '../wire-types.ts'
import { type Attachment, attach } from './attachment.ts'
import { ExecStream } from './exec-stream.ts'
import { untilExit } from './exit.ts'
import { SessionFiles } from './files.ts'
import type { Forward, ForwardOptions } from './forward.ts'
import { SessionNetwork } from './network.ts'
import { SessionProcesses } from './processes.ts'
import { SessionShells } from './shells.ts'

/** Content up to this size is sent as JSON, which is faster; larger content is sent as a raw body. */
const INLINE_BYTES = 256 * 1024

/** One sandbox. `info` is its state in the last reply; `refresh` and every lifecycle call update it. */
export class Session {
  readonly files: SessionFiles
  readonly network: SessionNetwork
  readonly processes: SessionProcesses
  readonly shells: SessionShells
  readonly #transport: Transport
  #info: SessionInfo | undefined
  #ref: string

  /** `from` is a reply of the daemon, or an id or name. */
  constructor(transport: Transport, from: SessionInfo | string) {
    this.#transport = transport
    this.#info = typeof from === 'string' ? undefined : from
    this.#ref = typeof from === 'string' ? from : from.id
    this.files = new SessionFiles(transport, this.#ref)
    this.network = new SessionNetwork(transport, this.#ref, info => this.#learn(info))
    this.processes = new SessionProcesses(transport, this.#ref)
    this.shells = new SessionShells(transport, this.#ref)
  }

  get id(): string {
    return this.#info?.id ?? this.#ref
  }

  /** The state in the last reply. Throws before the first reply. */
  get info(): SessionInfo {
    if (!this.#info) throw new Error(`call refresh() before reading the info of session ${this.#ref}`)
    return this.#info
  }

  get name(): string {
    return this.info.name
  }

  get status(): SessionInfo['status'] {
    return this.info.status
  }

  get expiresAt(): string | null {
    return this.info.expiresAt
  }

  /**
   * Runs a command line in a shell, which keeps its directory, variables and background jobs for the next command. Never sent twice. The
   * timeout is 30 s unless `timeoutMs` is given. Aborting `signal` interrupts the command, then kills it, unless `detach` is set.
   */
  async exec(cmd: string, { signal, ...options }: ExecOptions = {}): Promise<ExecResult> {
    try {
      return await this.#transport.json('exec', { params: { id: this.#ref }, body: { cmd, ...options }, signal })
    } catch (error) {
      throw withSession(error, { session: this.#ref })
    }
  }

  /** Like exec, with the output while the command runs, and no timeout unless `timeoutMs` is given. */
  execStream(cmd: string, options: ExecStreamOptions = {}): ExecStream {
    return new ExecStream(this.#transport, this.#ref, cmd, options)
  }

  /** Writes a file atomically and creates its parent directories. */
  async write(path: string, content: string | Uint8Array<ArrayBuffer>, options: WriteOptions = {}): Promise<void> {
    if (content.length > INLINE_BYTES) {
      await this.files.upload(path, content, options)
      return
    }
    const { signal, ...rest } = options
    const given = typeof content === 'string' ? { text: content } : { contentBase64: base64FromBytes(content) }
    await this.#transport.json('fsWrite', { params: { id: this.#ref }, body: { path, ...given, ...rest }, signal })
  }

  /** The whole file, or its first `maxBytes`. */
  async read(path: string, { maxBytes, signal }: { maxBytes?: number } & Cancel = {}): Promise<Uint8Array<ArrayBuffer>> {
    if (maxBytes === undefined)
      return new Uint8Array(await new Response(await this.files.download(path, { signal })).arrayBuffer())
    const reply = await this.#transport.json('fsRead', { params: { id: this.#ref }, query: { path, maxBytes }, signal })
    return bytesFromBase64(reply.contentBase64)
  }

  /** The whole file as text; bytes that are not UTF-8 become U+FFFD. */
  async readText(path: string, { signal }: Cancel = {}): Promise<string> {
    return new TextDecoder().decode(await this.read(path, { signal }))
  }

  /** The whole file, parsed as JSON. SECURITY: the sandbox wrote it, so check the value before use. */
  async readJson(path: string, { signal }: Cancel = {}): Promise<unknown> {
    const text = await this.readText(path, { signal })
    try {
      return JSON.parse(text)
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause)
      throw new SandglassError('FILE_NOT_JSON', { path, why }, { cause })
    }
  }

  /** Attaches to the terminal of a shell, which is created on first use. */
  attachShell(name: string = DEFAULT_SHELL, { signal, ...size }: Partial<TerminalSize> & Cancel = {}): Promise<Attachment> {
    return attach(this.#transport, 'attachShell', { params: { id: this.#ref, name }, query: size, signal })
  }

  /** Writes the configuration of an agent into the session. Start what it returns as a process with a terminal to see the agent's own screen. */
  prepareAgent(agent: AgentName, { signal, ...options }: AgentScreenOptions = {}): Promise<AgentScreen> {
    return this.#transport.json('prepareAgent', { params: { id: this.#ref, agent }, body: options, signal })
  }

  async ports({ signal }: Cancel = {}): Promise<Port[]> {
    return (await this.#transport.json('listPorts', { params: { id: this.#ref }, signal })).items
  }

  /** A TCP connection to a port in the sandbox. */
  dial(port: number, { signal }: Cancel = {}): Promise<ByteSocket> {
    return openSocket(this.#transport, 'dialPort', { params: { id: this.#ref, port }, signal })
  }

  /**
   * Forwards a port of this machine to a port in the sandbox, until it is closed. Resolves when it listens; throws if the session does not run.
   * Needs the client of `@sandglass/sdk/node`.
   */
  async forward(port: number, options: ForwardOptions = {}): Promise<Forward> {
    const { forward } = this.#transport.options
    if (!forward) throw new Error('only Node can listen on a port: connect with the client of @sandglass/sdk/node')
    await this.ports({ signal: options.signal })
    return forward(cancel => this.dial(port, cancel), options)
  }

  stats({ signal }: Cancel = {}): Promise<SessionStats> {
    return this.#transport.json('sessionStats', { params: { id: this.#ref }, signal })
  }

  /** The boot log. */
  async logs({ signal }: Cancel = {}): Promise<string> {
    return (await this.#transport.open('sessionLogs', { params: { id: this.#ref }, signal })).text()
  }

  /** State changes as they happen, starting after `lastEventId`. */
  async *events(options: { lastEventId?: string } & Cancel = {}): AsyncGenerator<SessionEvent, void, undefined> {
    for await (const event of follow(this.#transport, 'sessionEvents', { params: { id: this.#ref }, ...options })) {
      yield toCamel(JSON.parse(event.data)) as SessionEvent
    }
  }

  /**
   * Calls back once, when the session has stopped, failed or ended, with its `status` and `reason`. Works across lost connections and restarts
   * of the daemon, and does not keep the program running. Returns a function that unsubscribes. A permanent failure, such as a session that
   * does not exist, goes to `onError`; without `onError` it is an unhandled rejection.
   */
  on(
    _event: 'exit',
    listener: (info: SessionInfo) => void,
    { onError }: { onError?: (error: unknown) => void } = {},
  ): () => void {
    const unsubscribed = new AbortController()
    const { signal } = unsubscribed
    const tell = (info: SessionInfo) => {
      if (!signal.aborted) listener(this.#learn(info))
    }
    const fail = (error: unknown) => {
      if (signal.aborted) return
      if (!onError) throw error
      onError(error)
    }
    void untilExit(this.#transport, this.#ref, this.#info, { signal }).then(tell, fail)
    return () => unsubscribed.abort()
  }

  /** Starts a stopped or failed session. Network, policies and secrets that are given replace those of the session. */
  start = async ({ signal, ...changes }: StartOptions = {}) =>
    this.#learn(await this.#transport.json('startSession', { params: { id: this.#ref }, body: changes, signal }))
  /** Ends all processes and keeps the files: of a persistent session until it is removed, of an ephemeral one until `info.keptUntil`. */
  stop = (options: Cancel = {}) => this.#change('stopSession', options)
  pause = (options: Cancel = {}) => this.#change('pauseSession', options)
  resume = (options: Cancel = {}) => this.#change('resumeSession', options)
  terminate = (options: Cancel = {}) => this.#change('terminateSession', options)
  refresh = (options: Cancel = {}) => this.#change('getSession', options)

  /** Restarts the ttl of the session, or the retention of a stopped one. `ttlSeconds` sets another ttl (null: none, for a persistent session). */
  async renew({ ttlSeconds, signal }: { ttlSeconds?: number | null } & Cancel = {}): Promise<SessionInfo> {
    return this.#learn(await this.#transport.json('renewSession', { params: { id: this.#ref }, body: { ttlSeconds }, signal }))
  }

  /** Changes limits: at once if the session runs on oci or docker, at its next start if it is stopped. */
  async resize({ signal, ...limits }: ResizeOptions): Promise<SessionInfo> {
    return this.#learn(await this.#transport.json('resizeSession', { params: { id: this.#ref }, body: limits, signal }))
  }

  /** Ends the session and removes its machine and files; `purge` also removes its row. */
  async destroy({ purge, signal }: { purge?: boolean } & Cancel = {}): Promise<void> {
    this.#learn(await this.#transport.json('deleteSession', { params: { id: this.#ref }, query: { purge }, signal }))
  }

  /** `await using` ends the session with the block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.destroy()
  }

  async #change(
    route: 'stopSession' | 'pauseSession' | 'resumeSession' | 'terminateSession' | 'getSession',
    { signal }: Cancel,
  ): Promise<SessionInfo> {
    return this.#learn(await this.#transport.json(route, { params: { id: this.#ref }, signal }))
  }

  #learn(info: SessionInfo): SessionInfo {
    this.#info = info
    return info
  }
}
