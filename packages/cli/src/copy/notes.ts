import { SandglassError } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { printable } from '../printable.ts'
import type { Progress } from './progress.ts'

/** Names each entry that is not copied, on stderr, and remembers it. */
export class CopyNotes {
  readonly leftOut: string[] = []
  readonly unreadable: string[] = []
  readonly #progress: Progress
  readonly #say: Context['say']

  constructor(progress: Progress, { say }: Context) {
    this.#progress = progress
    this.#say = say
  }

  readonly onLeftOut = (what: string): void => this.#tell(this.leftOut, 'left out', what)
  readonly onUnreadable = (what: string): void => this.#tell(this.unreadable, 'cannot read', what)

  /** Throws PARTLY_COPIED if an entry could not be read. */
  requireAll(): void {
    const [first] = this.unreadable
    if (first !== undefined) throw new SandglassError('PARTLY_COPIED', { count: this.unreadable.length, first: printable(first) })
  }

  #tell(list: string[], words: string, what: string): void {
    list.push(what)
    this.#progress.clear()
    this.#say(`${words} ${printable(what)}\n`)
  }
}
