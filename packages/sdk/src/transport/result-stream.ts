import { withResolvers } from './with-resolvers.ts'

/**
 * Output with a result at its end. It has one reader: the loop over it, or, where nobody has taken an iterator in the turn of the event loop
 * in which the result was asked for, this class itself, which drops the output. A loop that begins later goes on from there.
 */
export class ResultStream<Piece, Result> {
  readonly #source: AsyncGenerator<Piece, Result, undefined>
  readonly #result = withResolvers<NonNullable<Result>>()
  #isIterated = false
  #isDraining = false
  /** The piece that was asked for to be dropped when a loop began. */
  #held: Promise<Piece | undefined> | undefined

  /** `unknown` is why there is no result, when the source ended without one or was left. */
  constructor(source: AsyncGenerator<Piece, Result, undefined>, unknown: () => Error) {
    this.#source = this.#settle(source, unknown)
    // A failure reaches the reader of the output; without a reader of the result it is not unhandled.
    this.#result.promise.catch(() => undefined)
  }

  get result(): Promise<NonNullable<Result>> {
    if (!this.#isIterated && !this.#isDraining) {
      this.#isDraining = true
      setTimeout(() => {
        if (!this.#isIterated) this.#held = this.#dropUntilIterated()
      })
    }
    return this.#result.promise
  }

  /** The result, after the rest of the output has been dropped. */
  drain(): Promise<NonNullable<Result>> {
    this.#isIterated = true
    this.#dropAll().catch(() => undefined) // #settle has handed the failure to the result
    return this.#result.promise
  }

  /** The reader from now on. */
  iterator(): AsyncGenerator<Piece, Result, undefined> {
    this.#isIterated = true
    return this.#iterate()
  }

  async *#iterate(): AsyncGenerator<Piece, Result, undefined> {
    try {
      const held = await this.#held
      this.#held = undefined
      if (held !== undefined) yield held
      return yield* this.#source
    } finally {
      await this.#source.return(undefined as Result)
    }
  }

  async #dropUntilIterated(): Promise<Piece | undefined> {
    try {
      for (;;) {
        const next = await this.#source.next()
        if (next.done) return undefined
        if (this.#isIterated) return next.value
      }
    } catch {
      return undefined // as in drain
    }
  }

  async #dropAll(): Promise<void> {
    for await (const _ of this.#source);
  }

  async *#settle(
    source: AsyncGenerator<Piece, Result, undefined>,
    unknown: () => Error,
  ): AsyncGenerator<Piece, Result, undefined> {
    try {
      const result = yield* source
      if (result !== undefined && result !== null) this.#result.resolve(result)
      return result
    } catch (error) {
      this.#result.reject(error)
      throw error
    } finally {
      this.#result.reject(unknown())
    }
  }
}
