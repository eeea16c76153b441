// Output with a result at its end.
import { withResolvers } from './with-resolvers.ts'

/**
 * An output stream with a result at its end. Its one reader is the loop over it. If the result is read and no loop begins in the same turn of
 * the event loop, this class reads and drops the output until a loop begins.
 */
export class ResultStream<Piece, Result> {
  readonly #source: AsyncGenerator<Piece, Result, undefined>
  readonly #result = withResolvers<NonNullable<Result>>()
  #isIterated = false
  #isDraining = false
  /** The read that was pending when a loop began; its piece belongs to the loop. */
  #held: Promise<Piece | undefined> | undefined

  /** `unknown` makes the error of a result that is missing because the source ended without one or was not read to its end. */
  constructor(source: AsyncGenerator<Piece, Result, undefined>, unknown: () => Error) {
    this.#source = this.#settle(source, unknown)
    // The reader of the output gets a failure, so that the result needs no reader.
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
    this.#dropAll().catch(() => undefined) // #settle rejects the result with it
    return this.#result.promise
  }

  /** Takes over as the reader. */
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
