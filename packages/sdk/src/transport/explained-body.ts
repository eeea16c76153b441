// Files that come out of a sandbox. A reply that has begun can only be broken off: who was reading is told why from what became of the session.
import { SandglassError } from '@sandglass/contract/tables'
import { unreachable } from './errors.ts'
import { bodyOf } from './follow.ts'
import type { ResponseLike, Transport } from './transport.ts'

export function explainedBody(
  transport: Transport,
  id: string,
  response: ResponseLike,
  signal: AbortSignal | undefined,
): ReadableStream<Uint8Array> {
  const reader = bodyOf(response).getReader()
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    try {
      const { done, value } = await reader.read()
      if (done) controller.close()
      else controller.enqueue(value)
    } catch (error) {
      controller.error(signal?.aborted ? signal.reason : await loss(transport, id, error))
    }
  }
  return new ReadableStream({ pull, cancel: reason => reader.cancel(reason) }, { highWaterMark: 0 })
}

/** The daemon breaks off once it knows what became of the sandbox. */
async function loss(transport: Transport, id: string, cause: unknown): Promise<unknown> {
  const lost = unreachable(transport.options.address, cause)
  const session = await transport.json('getSession', { params: { id } }).catch(() => undefined) // nobody is there: that is the reason
  if (session === undefined) return lost
  if (session.status === 'running') return new SandglassError('TRANSFER_CUT', { id: session.name ?? session.id }, { cause })
  const { name, status: state, reason, errorMessage: why } = session
  return new SandglassError('RUNNER_LOST', { id: session.id, name, state, reason, why }, { cause })
}
