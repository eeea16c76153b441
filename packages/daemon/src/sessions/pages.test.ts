import { duplexPair } from 'node:stream'
import { RunnerStream } from '@sandglass/runner-link/stream'
import { MessageReader, writeMessage } from '@sandglass/runner-link/wire'
import { expect, it } from 'vitest'
import { z } from 'zod'
import type { SessionStream } from './inside/request.ts'
import type { LiveSession } from './live.ts'
import { pagesOf } from './pages.ts'

const ID = 'sess_abcdefghijklmnop'

/** A stream whose other end the test writes in place of a runner. */
function fixture() {
  const [near, far] = duplexPair()
  near.on('error', () => undefined)
  const connection = { duplex: near, reader: new MessageReader(near) }
  const live = { record: { id: ID } } as LiveSession
  const stream = new RunnerStream(connection, { type: 'fs.list' }, cause =>
    Object.assign(new Error('lost', { cause }), { code: 'RUNNER_LOST' }),
  )
  let isClosed = false
  const close = () => {
    isClosed = true
    stream.close()
  }
  const page = (text: string) => writeMessage(far, { type: 'page' }, Buffer.from(text))
  const done = () => writeMessage(far, { type: 'done', truncated: true })
  const opened: SessionStream = { stream, live, close }
  return { pages: pagesOf(opened, z.object({ n: z.int() })), page, done, far, isClosed: () => isClosed }
}

async function collect(pages: ReturnType<typeof fixture>['pages']) {
  const all: { n: number }[] = []
  let page = await pages.next()
  for (; !page.done; page = await pages.next()) all.push(...page.value)
  return { all, tail: page.value }
}

it('yields the items page by page and then the final fields', async () => {
  const { pages, page, done, isClosed } = fixture()
  page('[{"n":1},{"n":2}]')
  page('[{"n":3}]')
  done()
  expect(await collect(pages)).toEqual({ all: [{ n: 1 }, { n: 2 }, { n: 3 }], tail: { truncated: true } })
  expect(isClosed()).toBe(true)
})

it('lets other work run between two pages', async () => {
  const { pages, page, done } = fixture()
  for (let n = 0; n < 20; n++) page(`[{"n":${n}}]`)
  done()
  let ticks = 0
  let isOver = false
  const count = () => {
    ticks++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  expect((await collect(pages)).all).toHaveLength(20)
  isOver = true
  expect(ticks).toBeGreaterThanOrEqual(20)
})

it.each([
  ['a page that is not a list', '{"n":1}'],
  ['an invalid item among valid ones', '[{"n":1},{"n":"x"}]'],
  ['invalid JSON', '[{"n":1'],
  ['a page of more than a mebibyte', JSON.stringify(Array.from({ length: 200_000 }, (_, n) => ({ n })))],
])('rejects %s and closes the stream', async (_, text) => {
  const { pages, page, isClosed } = fixture()
  page(text)
  await expect(collect(pages)).rejects.toMatchObject({ code: 'RUNNER_LOST' })
  expect(isClosed()).toBe(true)
})

it('reports a lost runner when the stream ends before the list', async () => {
  const { pages, page, far } = fixture()
  page('[{"n":1}]')
  far.end()
  await expect(collect(pages)).rejects.toMatchObject({ code: 'RUNNER_LOST' })
})
