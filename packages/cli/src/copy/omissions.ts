// The entries that a copy leaves out, named on stderr.
import { SandglassError } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { printable } from '../output/printable.ts'
import type { Progress } from './progress.ts'

/** The entries that a copy leaves out. Each is named on stderr as it is found. */
export class Omissions {
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

  readonly onLeftOut = (what: string): void => this.#add(this.leftOut, 'left out', what)
  readonly onUnreadable = (what: string): void => this.#add(this.unreadable, 'cannot read', what)

  /** Throws PARTLY_COPIED if an entry could not be read. `isRootUntried`: root might have read it. */
  requireNoneUnreadable(isRootUntried = false): void {
    const [first] = this.unreadable
    if (first === undefined) return
    throw new SandglassError('PARTLY_COPIED', {
      count: this.unreadable.length,
      // Without --quiet each of them has been named on stderr.
      ...(this.#isQuiet ? { first: printable(first) } : {}),
      is_root_untried: isRootUntried,
    })
  }

  #add(list: string[], words: string, what: string): void {
    list.push(what)
    this.#progress.clear()
    this.#say(`${words} ${printable(what)}\n`)
  }
}
