// Lists that a sandbox can make very long. The runner sends them in pages, each is checked when it is taken, and no more than one is
// here at a time, so that a large folder takes neither the memory nor the turns of other sessions.
import { setImmediate as turn } from 'node:timers/promises'
import { SandglassError } from '@sandglass/contract'
import { z } from 'zod'
import type { SessionStream } from './inside/request.ts'
import { parsed } from './inside/runner-shapes.ts'

/** The runner's pages are far smaller. SECURITY: the longest text of a sandbox that is parsed at once. */
const MAX_PAGE_BYTES = 1024 * 1024

/** A reply whose `items` are sent as they come, between the fields of `head` and those that the pages end with. */
export class PagedReply<R extends { items: readonly unknown[] }> {
  readonly head: Partial<R>
  readonly pages: AsyncGenerator<R['items'], Partial<R>, undefined>

  constructor(head: Partial<R>, pages: AsyncGenerator<R['items'], Partial<R>, undefined>) {
    this.head = head
    this.pages = pages
  }
}

const Done = z.object({ truncated: z.boolean() })

/** Closes the stream at its end. */
export async function* pagesOf<S extends z.ZodType>(
  { stream, live, close }: SessionStream,
  item: S,
): AsyncGenerator<z.output<S>[], { truncated: boolean }, undefined> {
  const { id } = live.record
  try {
    for (let message = await stream.next(); message !== null; message = await stream.next()) {
      if (message.type === 'done') return parsed(id, Done, message)
      yield itemsOf(id, item, await stream.collect(MAX_PAGE_BYTES))
      await turn() // a reader that is quicker than the runner would leave none to others
    }
    throw new SandglassError('RUNNER_LOST', { id })
  } finally {
    close()
  }
}

/** The first item that is wrong ends it: a page has room for very many. */
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
