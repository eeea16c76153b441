// `session.execStream()`: the output of a command as it comes.
import { SandglassError } from '@sandglass/contract/tables'
import { toCamel } from '../transport/case.ts'
import { LOST, withSession } from '../transport/errors.ts'
import { ResultStream } from '../transport/result-stream.ts'
import { bodyOf, streamError } from '../transport/resume-events.ts'
import { readEvents } from '../transport/sse.ts'
import type { Transport } from '../transport/transport.ts'
import type { ExecChunk, ExecDone, ExecStreamOptions } from '../wire-types.ts'

/**
 * The output of one command while it runs: `for await (const { chunk } of stream)`, then `await stream.result`. The command starts when a
 * loop begins or `result` is read. `result` works without a loop: the output is then read and dropped. Leaving the loop early interrupts
 * the command and kills it, unless `detach` is set; `result` then rejects with an AbortError.
 */
export class ExecStream implements AsyncIterable<ExecChunk, ExecDone, undefined> {
  #chunks: ResultStream<ExecChunk, ExecDone>

  constructor(transport: Transport, id: string, cmd: string, options: ExecStreamOptions) {
    this.#chunks = new ResultStream(chunks(transport, id, cmd, options), notRead)
  }

  [Symbol.asyncIterator](): AsyncGenerator<ExecChunk, ExecDone, undefined> {
    return this.#chunks.iterator()
  }

  /** How the command ended. If no loop over the output begins in the same turn of the event loop, the output is dropped until one begins. */
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
  try {
    const call = { params: { id }, body: { cmd, ...options }, headers: { accept: 'text/event-stream' }, signal }
    for await (const event of readEvents(bodyOf(await transport.open('execStream', call)))) {
      if (event.type === 'chunk') yield toCamel(JSON.parse(event.data)) as ExecChunk
      else if (event.type === 'done') return toCamel(JSON.parse(event.data)) as ExecDone
      else if (event.type === 'error') throw streamError(event)
      else if (event.type === 'waiting' || event.type === 'started') onWaiting?.(event.type === 'waiting')
    }
    throw new Error('the stream ended before the command did')
  } catch (error) {
    signal?.throwIfAborted()
    const lost = { address: transport.options.address, why: LOST }
    const failure = error instanceof SandglassError ? error : new SandglassError('DAEMON_UNREACHABLE', lost, { cause: error })
    throw withSession(failure, { session: id })
  }
}
