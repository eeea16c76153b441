import { expect, it } from 'vitest'
import { parsedItems, RunnerEntry } from './runner-shapes.ts'

const entry = { name: 'f', path: '/workspace/f', type: 'file', size: 1, mode: '0644', uid: 0, gid: 0, modified_at_ms: 0 }

it('a long list is checked item by item, and others have their turn meanwhile', async () => {
  let turns = 0
  let isOver = false
  const count = () => {
    turns++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  expect(await parsedItems('sess_x', RunnerEntry, Array(5000).fill(entry))).toHaveLength(5000)
  isOver = true
  expect(turns).toBeGreaterThanOrEqual(4)
})

it.each([[[...Array(1500).fill(entry), { ...entry, size: 'x' }]], [{}], [null]])(
  'a list with something else in it is refused whole',
  async value => {
    await expect(parsedItems('sess_x', RunnerEntry, value)).rejects.toMatchObject({ code: 'RUNNER_LOST' })
  },
)
