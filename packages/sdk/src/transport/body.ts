// Request bodies: what a caller may give, and how the web's fetch wants it.

export type BodySource = string | Uint8Array<ArrayBuffer> | Blob | AsyncIterable<Uint8Array>

/** What both the browser's and Node's own types take as a body. */
type WebBody = string | Uint8Array<ArrayBuffer> | Blob | ReadableStream

/** Streams become web streams; Node's own are async iterables and only need the shape. */
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
