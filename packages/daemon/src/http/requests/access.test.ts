import { describe, expect, it } from 'vitest'
import { daemonFixture } from '../../testing/daemon.fixture.ts'

const ORIGIN = 'https://app.example'
const listed = { flags: { 'cors-origins': [ORIGIN, 'http://localhost:3000'] } }
const question = (origin: string) => ({
  method: 'OPTIONS',
  headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,content-type' },
})

describe('a page of another origin', () => {
  it('that is listed gets a preflight reply without the key', async () => {
    const daemon = await daemonFixture(listed)
    const reply = await fetch(`${daemon.url}/v1/sessions`, question(ORIGIN))
    expect(reply.status).toBe(204)
    expect(Object.fromEntries(reply.headers)).toMatchObject({
      'access-control-allow-origin': ORIGIN,
      'access-control-allow-methods': 'GET, POST, PUT, DELETE',
      'access-control-allow-headers': expect.stringContaining('authorization'),
      vary: 'origin',
    })
    expect(reply.headers.has('access-control-allow-credentials')).toBe(false)
  })

  it('that is listed can read replies, errors, streams and files, and needs the key', async () => {
    const daemon = await daemonFixture(listed)
    const { id } = await daemon.create()
    const headers = { origin: ORIGIN }
    await daemon.fetch(`/v1/sessions/${id}/files?path=a.txt`, { method: 'PUT', body: 'a', headers })
    const replies = [
      await daemon.fetch('/v1/sessions', { headers }),
      await daemon.fetch('/v1/sessions/nobody', { headers }),
      await daemon.fetch(`/v1/sessions/${id}/exec/stream`, {
        method: 'POST',
        body: '{"cmd":"true"}',
        headers: { ...headers, 'content-type': 'application/json' },
      }),
      await daemon.fetch(`/v1/sessions/${id}/files?path=a.txt`, { headers }),
      await fetch(`${daemon.url}/v1/sessions`, { headers }),
    ]
    expect(replies.map(reply => reply.status)).toEqual([200, 404, 200, 200, 401])
    for (const reply of replies) {
      expect(reply.headers.get('access-control-allow-origin')).toBe(ORIGIN)
      await reply.text()
    }
  })

  it.each(['https://evil.example', 'https://app.example.evil.example', 'null'])(
    'that is not listed is told nothing: %s',
    async origin => {
      const daemon = await daemonFixture(listed)
      const replies = [
        await fetch(`${daemon.url}/v1/sessions`, question(origin)),
        await daemon.fetch('/v1/sessions', { headers: { origin } }),
      ]
      expect(replies.map(reply => reply.status)).toEqual([401, 200])
      for (const reply of replies) expect(reply.headers.has('access-control-allow-origin')).toBe(false)
    },
  )

  it('gets no CORS header when no origin is listed', async () => {
    const daemon = await daemonFixture()
    const reply = await fetch(`${daemon.url}/v1/sessions`, question(ORIGIN))
    expect([reply.status, reply.headers.has('access-control-allow-origin')]).toEqual([401, false])
  })

  it.each(['*', 'app.example', 'https://app.example/', 'https://app.example/page', 'https://APP.example', 'ftp://app.example'])(
    'cannot be listed as %s: it would never match, or match too much',
    async origin => {
      await expect(daemonFixture({ flags: { 'cors-origins': [origin] } })).rejects.toThrow('must be an origin')
    },
  )
})
