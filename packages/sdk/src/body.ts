// Request bodies: what a caller may give, and how the web's fetch wants it.

export type BodySource = string | Uint8Array<ArrayBuffer> | Blob | AsyncIterable<Uint8Array>

/** Streams become web streams; Node's own are async iterables and only need the shape. */
export function webBody(body: BodySource | undefined): BodyInit | undefined {
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
