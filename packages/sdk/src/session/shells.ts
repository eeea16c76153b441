// `session.shells`.
import { DEFAULT_SHELL } from '@sandglass/contract/tables'
import { newIdempotencyKey, type Transport } from '../transport/transport.ts'
import type { Cancel, ShellInfo, ShellOptions } from '../wire-types.ts'

/** Named shells. Each keeps its own working directory, variables and jobs. */
export class SessionShells {
  #transport: Transport
  #id: string

  constructor(transport: Transport, id: string) {
    this.#transport = transport
    this.#id = id
  }

  create(name: string, { signal, ...options }: ShellOptions = {}): Promise<ShellInfo> {
    const idempotencyKey = newIdempotencyKey()
    return this.#transport.json('createShell', { params: { id: this.#id }, body: { name, ...options }, idempotencyKey, signal })
  }

  async list({ signal }: Cancel = {}): Promise<ShellInfo[]> {
    return (await this.#transport.json('listShells', { params: { id: this.#id }, signal })).items
  }

  /**
   * Interrupts the command in a shell as Ctrl-C would, then kills it. The shell keeps its state. False when no command ran.
   * A command with another `user` runs in the shell `NAME@USER`.
   */
  async interrupt(name: string = DEFAULT_SHELL, { signal }: Cancel = {}): Promise<boolean> {
    return (await this.#transport.json('interruptShell', { params: { id: this.#id, name }, signal })).interrupted
  }

  /** Ends a shell and what runs in it. */
  async remove(name: string, { signal }: Cancel = {}): Promise<void> {
    await this.#transport.json('deleteShell', { params: { id: this.#id, name }, signal })
  }
}
