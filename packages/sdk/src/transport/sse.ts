// A parser of server-sent events.

export type SseEvent = { type: string; data: string; id: string | undefined }

/** Longest line. */
const MAX_BUFFER = 64 * 1024 * 1024

/** Takes text in pieces of any size and returns the complete events. */
export function createSseParser(): (text: string) => SseEvent[] {
  let buffer = ''
  let type = ''
  let id: string | undefined
  let data: string[] = []

  return text => {
    buffer += text
    const events: SseEvent[] = []
    // A CR at the end may be the first half of CRLF, so it stays in the buffer.
    const whole = buffer.endsWith('\r') ? buffer.slice(0, -1) : buffer
    const end = Math.max(whole.lastIndexOf('\n'), whole.lastIndexOf('\r'))
    if (end < 0) {
      if (buffer.length > MAX_BUFFER) throw new Error('event stream line is too long')
      return events
    }
    const lines = whole.slice(0, end).split(/\r\n|\n|\r/)
    buffer = buffer.slice(end + 1)
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) events.push({ type: type || 'message', data: data.join('\n'), id })
        type = ''
        data = []
      } else {
        field(line)
      }
    }
    return events
  }

  function field(line: string) {
    const colon = line.indexOf(':')
    if (colon === 0) return
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (name === 'data') data.push(value)
    else if (name === 'event') type = value
    else if (name === 'id' && !value.includes('\0')) id = value
  }
}

/** The events of a response body. Leaving the loop early closes the connection. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<SseEvent, void, undefined> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  const parse = createSseParser()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield* parse(decoder.decode(value, { stream: true }))
    }
  } finally {
    // Cancelling a failed stream rejects with its failure, which the loop has already thrown.
    await reader.cancel().catch(() => undefined)
  }
}
