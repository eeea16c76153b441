import { SandglassError } from '@sandglass/contract/tables'
import { toCamel } from './case.ts'
import { Drained } from './drained.ts'
import { bodyOf, streamError } from './follow.ts'
import { readEvents } from './sse.ts'
import { type Transport, unreachable } from './transport.ts'
import type { ExecChunk, ExecDone, ExecStreamOptions } from './wire-types.ts'

/**
 * Output of one command as it comes: `for await (const { chunk } of stream)`, then `await stream.result`. The command starts when a loop
 * begins or `result` is read. `result` alone also works; the output is then read and dropped. Leaving the loop early interrupts the
 * command and kills it, unless `detach`, and `result` then rejects with an AbortError.
 */
export class ExecStream implements AsyncIterable<ExecChunk, ExecDone, undefined> {
  #chunks: Drained<ExecChunk, ExecDone>

  constructor(transport: Transport, id: string, cmd: string, options: ExecStreamOptions) {
    this.#chunks = new Drained(chunks(transport, id, cmd, options), notRead)
  }

  [Symbol.asyncIterator](): AsyncGenerator<ExecChunk, ExecDone, undefined> {
    return this.#chunks.iterator()
  }

  /** How the command ended. Where no loop over the output begins in the same turn of the event loop, the output is dropped, until a loop begins. */
  get result(): Promise<ExecDone> {
    return this.#chunks.result
  }
}

const notRead = () => new DOMException('the output was not read to its end, so how the command ended is not known', 'AbortError')

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
