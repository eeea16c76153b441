// Lists that a sandbox can make very long, such as a folder. The runner sends them in pages. The daemon reads and checks one page at a
// time, so that a large folder costs other sessions neither memory nor waiting time.
import { setImmediate as yieldToOthers } from 'node:timers/promises'
import { SandglassError } from '@sandglass/contract'
import { z } from 'zod'
import type { SessionStream } from './inside/request.ts'
import { parsed } from './inside/runner-shapes.ts'

/** SECURITY: bounds the text from a sandbox that is parsed at once. The runner's own pages are far smaller. */
const MAX_PAGE_BYTES = 1024 * 1024

/** A streamed reply: the fields of `head`, then `items` page by page, then the fields that `pages` returns. */
export class PagedReply<R extends { items: readonly unknown[] }> {
  readonly head: Partial<R>
  readonly pages: AsyncGenerator<R['items'], Partial<R>, undefined>

  constructor(head: Partial<R>, pages: AsyncGenerator<R['items'], Partial<R>, undefined>) {
    this.head = head
    this.pages = pages
  }
}

const Done = z.object({ truncated: z.boolean() })

/** Reads the pages of a stream and closes it at the end. */
export async function* pagesOf<S extends z.ZodType>(
  { stream, live, close }: SessionStream,
  item: S,
): AsyncGenerator<z.output<S>[], { truncated: boolean }, undefined> {
  const { id } = live.record
  try {
    for (let message = await stream.next(); message !== null; message = await stream.next()) {
      if (message.type === 'done') return parsed(id, Done, message)
      yield itemsOf(id, item, await stream.collect(MAX_PAGE_BYTES))
      await yieldToOthers() // a client that reads faster than the runner sends would block the event loop
    }
    throw new SandglassError('RUNNER_LOST', { id })
  } finally {
    close()
  }
}

/** Fails at the first invalid item: a page can hold very many. */
function itemsOf<S extends z.ZodType>(id: string, item: S, page: Buffer): z.output<S>[] {
  return parsed(id, z.array(z.unknown()), jsonOf(id, page)).map(value => parsed(id, item, value))
}

function jsonOf(id: string, page: Buffer): unknown {
  try {
    return JSON.parse(page.toString('utf8'))
  } catch (cause) {
    throw new SandglassError('RUNNER_LOST', { id }, { cause })
  }
}
