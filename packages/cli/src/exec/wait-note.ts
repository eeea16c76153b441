import type { Context } from '../command.ts'

const AFTER_MS = 1000

/** Says that a command waits for a busy shell, once the wait is long enough to be noticed. */
export class WaitNote implements Disposable {
  readonly #shell: string
  readonly #say: Context['say']
  #timer: NodeJS.Timeout | undefined

  constructor(shell: string, { say }: Context) {
    this.#shell = shell
    this.#say = say
  }

  get isWaiting(): boolean {
    return this.#timer !== undefined
  }

  set(isWaiting: boolean): void {
    clearTimeout(this.#timer)
    const tell = () => this.#say(`sandglass: waiting for shell ${this.#shell}: it is running another command\n`)
    this.#timer = isWaiting ? setTimeout(tell, AFTER_MS).unref() : undefined
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
  }
}
