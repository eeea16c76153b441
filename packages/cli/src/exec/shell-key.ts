import type { Session } from '@sandglass/sdk'
import type { Context } from '../command.ts'

/** Types Ctrl-C into a shell of a session. */
export class ShellKey implements AsyncDisposable {
  readonly #withSockets: () => Promise<Session>
  readonly #shell: string | undefined
  readonly #report: Context['report']
  #terminal: Promise<{ write(data: string): Promise<void>; close(): void }> | undefined

  constructor(withSockets: () => Promise<Session>, shell: string | undefined, report: Context['report']) {
    this.#withSockets = withSockets
    this.#shell = shell
    this.#report = report
  }

  /** The terminal stays attached for the next time, and until the command has ended, so that the key is not lost on the way. */
  press(): void {
    this.#terminal ??= this.#withSockets().then(session => session.attachShell(this.#shell))
    this.#terminal.then(terminal => terminal.write('\x03')).catch(error => void this.#report(error))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const terminal = await this.#terminal?.catch(() => undefined) // press has told it
    terminal?.close()
  }
}
