import { expect, it } from 'vitest'
import { jsonBytes } from './json.ts'

it.each([
  ['a long text', { exit_code: 0, output: '\u0001é😀"\\'.repeat(200_000), missing: undefined, truncated: false }],
  ['a long text of pairs, cut anywhere', { output: `x${'😀'.repeat(500_000)}` }],
  ['a long list', { path: '/', items: Array.from({ length: 2500 }, (_, n) => ({ n, text: 'é' })), truncated: true }],
  ['a list that fills its pieces', { items: Array.from({ length: 2000 }, (_, n) => n) }],
  ['a short reply', { items: [1], text: 'x' }],
])('%s has the same bytes in pieces as at once', async (_what, reply) => {
  expect((await jsonBytes(reply)).toString()).toBe(JSON.stringify(reply))
})

it('lets other requests run while a long reply is encoded', async () => {
  let turns = 0
  let isOver = false
  const count = () => {
    turns++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  await jsonBytes({ items: Array.from({ length: 10_000 }, (_, n) => n), output: 'x'.repeat(2 ** 21) })
  isOver = true
  expect(turns).toBeGreaterThan(10)
})
