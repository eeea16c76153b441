// Replies that are bytes, as streams.
import type { RouteName } from '@sandglass/contract/tables'
import { unreachable } from './errors.ts'
import { bodyOf } from './resume-events.ts'
import type { CallOptions, ResponseLike, Transport } from './transport.ts'

/** The body of a reply. A connection that is lost before its end fails the stream with DAEMON_UNREACHABLE. */
export async function download<Name extends RouteName>(
  transport: Transport,
  name: Name,
  call: CallOptions<Name>,
): Promise<ReadableStream<Uint8Array>> {
  const response = await transport.open(name, call)
  return explainedBody(response, call.signal, error => unreachable(transport.options.address, error))
}

/** The body of a reply. `explain` returns the error of a body that breaks off, unless the caller has aborted it. */
export function explainedBody(
  response: ResponseLike,
  signal: AbortSignal | undefined,
  explain: (cause: unknown) => unknown,
): ReadableStream<Uint8Array> {
  const reader = bodyOf(response).getReader()
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    try {
      const { done, value } = await reader.read()
      if (done) controller.close()
      else controller.enqueue(value)
    } catch (error) {
      controller.error(signal?.aborted ? signal.reason : await explain(error))
    }
  }
  return new ReadableStream({ pull, cancel: reason => reader.cancel(reason) }, { highWaterMark: 0 })
}

/** The whole body of a reply, as text. */
export async function downloadText<Name extends RouteName>(
  transport: Transport,
  name: Name,
  call: CallOptions<Name>,
): Promise<string> {
  return new Response(await download(transport, name, call)).text()
}
