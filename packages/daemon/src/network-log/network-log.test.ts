import { appendFile, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { logFolder } from '../egress/folders.ts'
import { daemonFixture, type TestDaemon } from '../testing/daemon.fixture.ts'
import { API, egressDaemonFixture, OTHER } from '../testing/egress-daemon.fixture.ts'

type Event = { id?: number; event: string; data: { id: number; decision: string | null; url: string | null } }

function events(text: string): Event[] {
  return text
    .split('\n\n')
    .filter(block => block.includes('data: '))
    .map(block => {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1]
      const id = field('id')
      return { ...(id ? { id: Number(id) } : {}), event: field('event') ?? '', data: JSON.parse(field('data') ?? '') }
    })
}

/** A session that has stopped, with a log as the egress process writes it. */
async function loggedFixture(): Promise<{ daemon: TestDaemon; id: string }> {
  const daemon = await daemonFixture()
  const { id } = await daemon.create({ start: false })
  const folder = logFolder(daemon.dataDir, id)
  await mkdir(folder, { recursive: true })
  const entry = (number: number, decision: string) => ({
    ...{
      id: number,
      at: '2030-01-01T00:00:00.000Z',
      type: 'request',
      decision,
      method: 'GET',
      url: `https://a.example/${number}`,
    },
    ...{ host: 'a.example', port: 443, status: 200, rule: null, reason: null, bytes_sent: 1, bytes_received: 2, duration_ms: 3 },
    ...{ masked: 0, tags: [] },
  })
  const decisions = ['allowed', 'blocked', 'allowed', 'error', 'allowed', 'blocked']
  for (const [index, decision] of decisions.entries()) {
    const suffix = index < 3 ? '.1' : ''
    await appendFile(join(folder, `network-sandbox.jsonl${suffix}`), `${JSON.stringify(entry(index + 1, decision))}\n`)
    await appendFile(join(folder, `network-sandbox.log${suffix}`), `line ${index + 1}\n`)
  }
  return { daemon, id }
}

const ids = async (daemon: TestDaemon, id: string, query = '', headers = {}) =>
  events((await daemon.call('GET', `/v1/sessions/${id}/network${query}`, undefined, headers)).text).map(({ data }) => data.id)

describe('the network log of a session', () => {
  it.each<[string, number[]]>([
    ['', [1, 2, 3, 4, 5, 6]],
    ['?tail=2', [5, 6]],
    ['?tail=0', []],
    ['?tail=100', [1, 2, 3, 4, 5, 6]],
    ['?blocked=true', [2, 4, 6]],
    ['?blocked=true&tail=2', [4, 6]],
  ])('with %s is read', async (query, expected) => {
    const { daemon, id } = await loggedFixture()
    expect(await ids(daemon, id, query)).toEqual(expected)
  })

  it('resumes after the last entry that the client has seen', async () => {
    const { daemon, id } = await loggedFixture()
    expect(await ids(daemon, id, '?tail=1', { 'last-event-id': '4' })).toEqual([5, 6])
    const { body } = await daemon.call('GET', `/v1/sessions/${id}/network`, undefined, { 'last-event-id': 'x' })
    expect(body).toMatchObject({ error: { code: 'INVALID_REQUEST' } })
  })

  it('is text, with the rotated part first', async () => {
    const { daemon, id } = await loggedFixture()
    const { text, headers } = await daemon.call('GET', `/v1/sessions/${id}/network/file`)
    expect([text, headers.get('content-type')]).toEqual([
      'line 1\nline 2\nline 3\nline 4\nline 5\nline 6\n',
      'text/plain; charset=utf-8',
    ])
  })

  it('suggests a policy that allows what was allowed', async () => {
    const { daemon, id } = await loggedFixture()
    const { body } = await daemon.call('GET', `/v1/sessions/${id}/network/suggestion`)
    expect(JSON.stringify(body)).toContain('a.example')
    expect((await daemon.call('PUT', '/v1/policies/suggested', body)).status).toBe(200)
  })

  it('is empty for a session without one, and unknown for an unknown session', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create({ start: false })
    expect(await ids(daemon, id)).toEqual([])
    for (const path of ['network', 'network/file', 'network/suggestion'])
      expect((await daemon.call('GET', `/v1/sessions/nobody/${path}`)).body).toMatchObject({
        error: { code: 'SESSION_NOT_FOUND' },
      })
  })

  it('is followed while the session runs, and ends with it', async () => {
    const { daemon, send } = await egressDaemonFixture()
    await daemon.call('PUT', '/v1/policies/mine', { domains: [API] })
    const { id } = await daemon.create({ policies: ['mine'] })
    const following = daemon.call('GET', `/v1/sessions/${id}/network?follow=true`)
    await send(id, `http://${API}/x`)
    await send(id, `http://${OTHER}/y`)
    await daemon.call('POST', `/v1/sessions/${id}/terminate`)
    const found = events((await following).text)
    expect(found.at(-1)).toMatchObject({ event: 'end' })
    expect(found.filter(({ data }) => data.decision && data.url).map(({ data }) => [data.decision, data.url])).toEqual([
      ['allowed', `http://${API}/x`],
      ['blocked', `http://${OTHER}/y`],
    ])
    expect(found.slice(0, -1).every(event => event.event === 'entry' && event.id === event.data.id)).toBe(true)
  })
})
