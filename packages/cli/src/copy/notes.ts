import { SandglassError } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { printable } from '../output/printable.ts'
import type { Progress } from './progress.ts'

/** Names each entry that is not copied, on stderr, and remembers it. */
export class CopyNotes {
  readonly leftOut: string[] = []
  readonly unreadable: string[] = []
  readonly #progress: Progress
  readonly #say: Context['say']
  readonly #isQuiet: boolean

  constructor(progress: Progress, { say, quiet }: Context) {
    this.#progress = progress
    this.#say = say
    this.#isQuiet = quiet
  }

  readonly onLeftOut = (what: string): void => this.#tell(this.leftOut, 'left out', what)
  readonly onUnreadable = (what: string): void => this.#tell(this.unreadable, 'cannot read', what)

  /** Throws PARTLY_COPIED if an entry could not be read. `isRootUntried`: root might have read it. */
  requireAll(isRootUntried = false): void {
    const [first] = this.unreadable
    if (first === undefined) return
    throw new SandglassError('PARTLY_COPIED', {
      count: this.unreadable.length,
      // Without --quiet each of them was named already.
      ...(this.#isQuiet ? { first: printable(first) } : {}),
      is_root_untried: isRootUntried,
    })
  }

  #tell(list: string[], words: string, what: string): void {
    list.push(what)
    this.#progress.clear()
    this.#say(`${words} ${printable(what)}\n`)
  }
}
