import { DEFAULT_SHELL } from '@sandglass/contract/tables'
import type { Session } from '@sandglass/sdk'
import type { Context } from '../command.ts'

/** Types Ctrl-C into the shell of a command. */
export class ShellKey implements AsyncDisposable {
  readonly #session: Session
  readonly #of: { shell?: string; user?: string }
  readonly #report: Context['report']
  #terminal: Promise<{ write(data: string): Promise<void>; close(): void }> | undefined

  constructor(session: Session, of: { shell?: string; user?: string }, report: Context['report']) {
    this.#session = session
    this.#of = of
    this.#report = report
  }

  /** The terminal stays attached for the next time, and until the command has ended, so that the key is not lost on the way. */
  press(): void {
    this.#terminal ??= this.#name().then(name => this.#session.attachShell(name))
    this.#terminal.then(terminal => terminal.write('\x03')).catch(error => void this.#report(error))
  }

  /** A user that was asked for has a shell of its own, unless the named one is that user's. */
  async #name(): Promise<string> {
    const { shell = DEFAULT_SHELL, user } = this.#of
    if (user === undefined) return shell
    const mine = (await this.#session.shells.list()).filter(s => s.user === user).map(s => s.name)
    return [shell, `${shell}@${user}`].find(name => mine.includes(name)) ?? shell
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const terminal = await this.#terminal?.catch(() => undefined) // press has told it
    terminal?.close()
  }
}
