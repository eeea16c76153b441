// Request bodies: the types a caller may pass, and their form for the global fetch.

export type BodySource = string | Uint8Array<ArrayBuffer> | Blob | AsyncIterable<Uint8Array>

/** Body types of both browsers and Node. */
type WebBody = string | Uint8Array<ArrayBuffer> | Blob | ReadableStream

/** Converts async iterables, such as the streams of Node, to web streams. */
export function webBody(body: BodySource | undefined): WebBody | undefined {
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array || body instanceof Blob) return body
  if (body instanceof ReadableStream) return body
  const source = body[Symbol.asyncIterator]()
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await source.next()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    async cancel() {
      await source.return?.()
    },
  })
}
