import { expect, test } from 'vitest'
import { createDetachReader } from './detach-key.ts'

const type = (...pieces: string[]) => {
  const read = createDetachReader()
  const results = pieces.map(piece => read(Buffer.from(piece)))
  return { sent: Buffer.concat(results.map(r => r.data)).toString(), isDetached: results.some(r => r.isDetach) }
}

test('~. at the start of a line detaches, also in two keys', () => {
  expect(type('~.')).toEqual({ sent: '', isDetached: true })
  expect(type('ls\r', '~', '.')).toEqual({ sent: 'ls\r', isDetached: true })
  expect(type('ls\r~.rest')).toEqual({ sent: 'ls\r', isDetached: true })
})

test('a tilde elsewhere, doubled, or followed by another key is sent', () => {
  expect(type('cd ~.')).toEqual({ sent: 'cd ~.', isDetached: false })
  expect(type('~~.')).toEqual({ sent: '~.', isDetached: false })
  expect(type('~/x\r', '~\r', 'a')).toEqual({ sent: '~/x\r~\ra', isDetached: false })
})
