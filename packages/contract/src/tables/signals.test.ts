import { constants } from 'node:os'
import { expect, it } from 'vitest'
import { SignalRequest } from '../schemas/exec.ts'
import { SIGNAL_NUMBERS } from './signals.ts'

it.each(['TERM', 'SIGTERM', 'term', 'sigterm', '15', 15])('a request takes %j for TERM', signal => {
  expect(SignalRequest.parse({ signal })).toEqual({ signal: 'TERM' })
})

it.each(['', 'SIG', 'SIGSIGTERM', 'TERMINATE', '015', 0, 99, 11, 'SEGV', 1.5, null])('a request refuses %j', signal => {
  expect(SignalRequest.safeParse({ signal }).success).toBe(false)
})

it('each signal has the number that the kernel has', () => {
  for (const [name, number] of Object.entries(SIGNAL_NUMBERS)) expect(constants.signals[`SIG${name}` as 'SIGTERM']).toBe(number)
})
