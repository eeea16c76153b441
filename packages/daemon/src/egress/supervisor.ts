// egress/ is the daemon's side of the egress process: it finds or starts the process, tells it everything that it has to know, and brings it back when it
// ends. Nothing here happens before a session needs the process.
//
// After each connection the daemon sends the settings first, then all sessions: a process that was started again knows nothing, and one that
// outlived a daemon may know what is no longer true.
import { existsSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { SandglassError } from '@sandglass/contract'
import type { ControlEvent, ControlReplies, EgressSettings } from '@sandglass/egress/control'
import type { EgressSession } from '@sandglass/egress/session'
import { isAlive } from '../backends/machine/process-state.ts'
import type { Logger } from '../log.ts'
import { type Control, connectControl, isSameVersion, isUnheard } from './control.ts'
import { controlSocket } from './folders.ts'
import { killProcess, startProcess } from './start-process.ts'

/** Longer than a session waits: on a host under load the process is there for the next one. */
const START_MS = 20_000
const POLL_MS = 5
const FIRST_RETRY_MS = 100
const LAST_RETRY_MS = 5000
const SHUTDOWN_MS = 1000
const PING_MS = 2000

export interface SupervisorOptions {
  readonly dataDir: string
  readonly log: Logger
  settings(): Promise<EgressSettings>
  /** Whether a session needs the process: if so, a process that ended is started again. */
  isNeeded(): boolean
  /** Called after each connection, when the settings are in force. Not awaited by anybody who waits for the connection. */
  onConnected(control: Control): Promise<void>
  onEvent(event: ControlEvent): void
}

export class EgressSupervisor {
  readonly #options: SupervisorOptions
  readonly #closing = new AbortController()
  #connecting: Promise<Control> | null = null
  #control: Control | null = null
  /** Fingerprints of the authorities that the process has. */
  #configured: ReadonlySet<string> = new Set()
  #retrying: Promise<void> | null = null
  #telling: Promise<void> | null = null

  constructor(options: SupervisorOptions) {
    this.#options = options
  }

  get isConnected(): boolean {
    return this.#control !== null
  }

  /** Connects to the process, which is started unless it runs. Throws EGRESS_UNAVAILABLE. */
  async ensure(): Promise<Control> {
    if (this.#control !== null) return this.#control
    this.#connecting ??= this.#open().finally(() => {
      this.#connecting = null
    })
    try {
      return await this.#connecting
    } catch (error) {
      unavailable(error)
    }
  }

  /**
   * Called once, before the first request: connects to a process that an earlier daemon left. If sessions need one, it is started in the
   * background; it is not waited for.
   */
  async recover(): Promise<void> {
    if (this.#options.isNeeded()) return this.#retry()
    if (!existsSync(controlSocket(this.#options.dataDir))) return
    const found = await this.#find()
    if (found === null) return
    await this.#adopt(found).catch(err => this.#options.log.warn({ err }, 'egress process that was found cannot be used'))
  }

  /** Throws EGRESS_UNAVAILABLE if the process does not accept the session. */
  async putSession(session: EgressSession, isRetry = false): Promise<void> {
    const control = await this.ensure()
    try {
      if (!this.#configured.has(session.ca)) await this.#configure(control)
      await control.request('put_session', { session })
    } catch (error) {
      if (this.#control === control) await this.#replaceIfHung(control)
      if (this.#control === control || this.#closing.signal.aborted || isRetry) unavailable(error)
      // The process has ended since: the next one has to learn of the session.
      await this.putSession(session, true)
    }
  }

  /** Does nothing if no process runs: one that is started later does not know the session. */
  async removeSession(id: string): Promise<void> {
    await this.#control?.request('remove_session', { session: id })
  }

  /** Sends the settings again, if a process runs. */
  async reconfigure(): Promise<void> {
    if (this.#control === null) return
    try {
      await this.#configure(this.#control)
    } catch (error) {
      unavailable(error)
    }
  }

  async answerApproval(approval: string, allowed: boolean, scope: 'once' | 'session' | 'policy') {
    if (this.#control === null) throw new SandglassError('EGRESS_UNAVAILABLE', { why: 'it does not run' })
    try {
      return (await this.#control.request('answer_approval', { approval, allowed, scope })).held
    } catch (error) {
      unavailable(error)
    }
  }

  /** Null if no process runs or it does not answer. */
  async metrics(): Promise<ControlReplies['metrics'] | null> {
    return (await this.#control?.request('metrics', {}, SHUTDOWN_MS).catch(() => null)) ?? null
  }

  /** The process goes on while sessions need it; otherwise it ends, too. */
  async close(): Promise<void> {
    this.#closing.abort()
    const underWay = Promise.allSettled([this.#retrying, this.#connecting, this.#telling])
    await Promise.race([underWay, delay(SHUTDOWN_MS, undefined, { ref: false })])
    const control = this.#control
    this.#control = null
    if (control === null) return
    if (!this.#options.isNeeded()) {
      const { log } = this.#options
      await control.request('shutdown', {}, SHUTDOWN_MS).catch(err => log.warn({ err }, 'egress process could not be ended'))
    }
    control.close()
  }

  async #open(): Promise<Control> {
    return await this.#adopt((await this.#find()) ?? (await this.#start()))
  }

  async #adopt(control: Control): Promise<Control> {
    const { log } = this.#options
    try {
      await this.#configure(control)
    } catch (error) {
      control.close()
      throw error
    }
    this.#control = control
    log.info({ pid: control.hello.pid }, 'egress process connected')
    this.#telling = this.#options
      .onConnected(control)
      .catch(err => log.error({ err }, 'egress process could not be told of the sessions'))
    return control
  }

  async #configure(control: Control): Promise<void> {
    const settings = await this.#options.settings()
    await control.request('configure', { settings })
    this.#configured = new Set(settings.authorities.map(({ fingerprint }) => fingerprint))
  }

  /** Null if no process can be used: none listens, it is of another version, or it does not answer. What still runs is ended. */
  async #find(): Promise<Control | null> {
    const { dataDir, log } = this.#options
    let control: Control
    try {
      control = await this.#connect()
    } catch (error) {
      if (!isUnheard(error)) log.warn({ err: error }, 'egress process does not answer; starting another')
      await killProcess(dataDir)
      return null
    }
    if (isSameVersion(control)) return control
    log.info({ pid: control.hello.pid, version: control.hello.version }, 'egress process has another version; starting another')
    await control.request('shutdown', {}, SHUTDOWN_MS).catch(() => undefined) // it is killed below
    control.close()
    await killProcess(dataDir)
    return null
  }

  async #start(): Promise<Control> {
    const { dataDir, log } = this.#options
    const deadline = Date.now() + START_MS
    const state = await startProcess(dataDir)
    log.info({ pid: state.pid }, 'egress process started')
    for (;;) {
      try {
        return await this.#connect()
      } catch (error) {
        if (!isAlive(state)) throw new Error('it ended at once; egress.log in the data folder says why', { cause: error })
        if (Date.now() > deadline || this.#closing.signal.aborted) throw error
        await delay(POLL_MS)
      }
    }
  }

  /** A process that does not answer at all is given up, as if its connection had broken. */
  async #replaceIfHung(control: Control): Promise<void> {
    const answers = await control.request('list_sessions', {}, PING_MS).then(
      () => true,
      () => false,
    )
    if (answers || this.#control !== control) return
    control.close()
    this.#lost()
  }

  #connect(): Promise<Control> {
    const { dataDir, onEvent } = this.#options
    return connectControl(controlSocket(dataDir), { onEvent, onLost: () => this.#lost() })
  }

  #lost(): void {
    if (this.#control === null || this.#closing.signal.aborted) return
    this.#control = null
    if (!this.#options.isNeeded()) return
    this.#options.log.warn('egress process lost; starting it again')
    this.#retry()
  }

  #retry(): void {
    this.#retrying ??= this.#keepTrying().finally(() => {
      this.#retrying = null
    })
  }

  /** Until it succeeds or no session needs the process any more. */
  async #keepTrying(): Promise<void> {
    const { signal } = this.#closing
    for (let wait = FIRST_RETRY_MS; !signal.aborted; wait = Math.min(2 * wait, LAST_RETRY_MS)) {
      try {
        await this.ensure()
        return
      } catch (err) {
        this.#options.log.error({ err }, 'egress process cannot be started; retrying')
      }
      if (!this.#options.isNeeded()) return
      await delay(wait, undefined, { signal, ref: false }).catch(() => undefined) // the loop ends
    }
  }
}

/** Throws the error in the form of the API. */
export function unavailable(cause: unknown): never {
  if (cause instanceof SandglassError) throw cause
  const why = cause instanceof Error ? cause.message : String(cause)
  throw new SandglassError('EGRESS_UNAVAILABLE', { why }, { cause })
}
