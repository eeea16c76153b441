import type { ApprovalInfo } from '@sandglass/sdk'
import { expect, test } from 'vitest'
import { Waiting } from './waiting.ts'

const approval = (id: string, status: ApprovalInfo['status'] = 'pending'): ApprovalInfo => ({
  id,
  sessionId: 'sess_0123456789abcdef',
  sessionName: 'box',
  status,
  method: 'GET',
  url: `https://${id}.example.com/`,
  host: `${id}.example.com`,
  port: 443,
  scope: null,
  requests: 1,
  requestedAt: '2026-01-01T00:00:00.000Z',
  expiresAt: '2026-01-01T00:05:00.000Z',
  answeredAt: null,
})

test('the request that came first is next until it is dropped', async () => {
  const waiting = new Waiting()
  const first = waiting.next()
  waiting.learn(approval('a'))
  waiting.learn(approval('b'))
  waiting.learn(approval('a'))
  expect((await first).approval.id).toBe('a')
  expect((await waiting.next()).approval.id).toBe('a')
  waiting.drop('a')
  expect((await waiting.next()).approval.id).toBe('b')
})

test('a request that was answered elsewhere ends the question about it', async () => {
  const waiting = new Waiting()
  waiting.learn(approval('a'))
  const { over } = await waiting.next()
  expect(over.aborted).toBe(false)
  waiting.learn(approval('a', 'expired'))
  expect(over.aborted).toBe(true)
  const next = waiting.next()
  waiting.learn(approval('b'))
  expect((await next).approval.id).toBe('b')
})

test('a failure ends the question and every wait', async () => {
  const waiting = new Waiting()
  waiting.learn(approval('a'))
  const { over } = await waiting.next()
  waiting.fail(new Error('lost'))
  expect(over.aborted).toBe(true)
  await expect(waiting.next()).rejects.toThrow('lost')
  const empty = new Waiting()
  const wait = empty.next()
  empty.fail(new Error('gone'))
  await expect(wait).rejects.toThrow('gone')
})
