import { SandglassError } from '@sandglass/contract/tables'
import { toCamel } from './case.ts'
import { bodyOf, streamError } from './follow.ts'
import { readEvents } from './sse.ts'
import { type Transport, unreachable } from './transport.ts'
import type { ExecChunk, ExecDone, ExecStreamOptions } from './wire-types.ts'
import { withResolvers } from './with-resolvers.ts'

/**
 * Output of one command as it comes: `for await (const { chunk } of stream)`, then `await stream.result`.
 * `result` alone also works; the output is then read and dropped. Leaving the loop early interrupts the command and kills it,
 * unless `detach`.
 */
export class ExecStream implements AsyncIterable<ExecChunk, ExecDone, undefined> {
  #chunks: AsyncGenerator<ExecChunk, ExecDone, undefined>
  #result = withResolvers<ExecDone>()
  #isRead = false

  constructor(transport: Transport, id: string, cmd: string, options: ExecStreamOptions) {
    this.#chunks = this.#settle(chunks(transport, id, cmd, options))
    // A failure reaches the reader of the chunks; without a reader of `result` it is not unhandled.
    this.#result.promise.catch(() => undefined)
  }

  [Symbol.asyncIterator](): AsyncGenerator<ExecChunk, ExecDone, undefined> {
    this.#isRead = true
    return this.#chunks
  }

  /** How the command ended. */
  get result(): Promise<ExecDone> {
    if (!this.#isRead) {
      this.#isRead = true
      drain(this.#chunks).catch(() => undefined) // #settle has handed the failure to the result
    }
    return this.#result.promise
  }

  async *#settle(source: AsyncGenerator<ExecChunk, ExecDone, undefined>): AsyncGenerator<ExecChunk, ExecDone, undefined> {
    try {
      const done = yield* source
      this.#result.resolve(done)
      return done
    } catch (error) {
      this.#result.reject(error)
      throw error
    } finally {
      this.#result.reject(
        new SandglassError('INTERNAL', { message: 'the output was not read to its end, so the result is not known' }),
      )
    }
  }
}

async function* chunks(
  transport: Transport,
  id: string,
  cmd: string,
  { signal, onWaiting, ...options }: ExecStreamOptions,
): AsyncGenerator<ExecChunk, ExecDone, undefined> {
  const response = await transport.open('execStream', {
    params: { id },
    body: { cmd, ...options },
    headers: { accept: 'text/event-stream' },
    signal,
  })
  try {
    for await (const event of readEvents(bodyOf(response))) {
      if (event.type === 'chunk') yield toCamel(JSON.parse(event.data)) as ExecChunk
      else if (event.type === 'done') return toCamel(JSON.parse(event.data)) as ExecDone
      else if (event.type === 'error') throw streamError(event)
      else if (event.type === 'waiting' || event.type === 'started') onWaiting?.(event.type === 'waiting')
    }
  } catch (error) {
    signal?.throwIfAborted()
    throw error instanceof SandglassError ? error : unreachable(transport.options.address, error)
  }
  throw unreachable(transport.options.address, new Error('the stream ended before the command did'))
}

async function drain(source: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of source);
}
