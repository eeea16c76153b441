import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import { daemonFixture, KEY, type TestDaemon, until } from '../../testing/daemon.fixture.ts'

type Event = { id?: string; event: string; data: never }

/** The events of a stream; ends with it. */
async function* events(response: Response): AsyncGenerator<Event, void, undefined> {
  let text = ''
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += chunk
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const fields = Object.fromEntries(
        text
          .slice(0, end)
          .split('\n')
          .map(line => line.split(/: (.*)/s).slice(0, 2)),
      )
      text = text.slice(end + 2)
      if (fields.event) yield { id: fields.id, event: fields.event, data: JSON.parse(fields.data) as never }
    }
  }
}
const stream = (daemon: TestDaemon, id: string, body: object, signal?: AbortSignal) =>
  daemon.fetch(`/v1/sessions/${id}/exec/stream`, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
    ...(signal ? { signal } : {}),
  })

describe('exec/stream', () => {
  it('sends output while the command runs, then the result', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const got: Event[] = []
    for await (const event of events(
      await stream(daemon, id, { cmd: 'echo one; mkfifo p; read x < p; echo two; exit_code() { return 3; }; exit_code' }),
    )) {
      got.push(event)
      if (JSON.stringify(event.data).includes('one')) {
        await until(async () =>
          (await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'test -p p && echo > p', shell: 'b' })).text.includes(
            '"exit_code":0',
          ),
        )
      }
    }
    const text = got.filter(e => e.event === 'chunk').map(e => (e.data as { chunk: string }).chunk)
    expect(text.join('')).toBe('one\ntwo\n')
    expect(got.at(-1)).toMatchObject({ event: 'done', data: { exit_code: 3, timed_out: false } })
    expect(got.map(e => Number(e.id))).toEqual(got.map((_, i) => i + 1))
  })

  it('refuses with a plain reply, as exec does', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    expect(await (await stream(daemon, id, { cmd: 'true', cwd: '/nowhere' })).json()).toMatchObject({
      error: { code: 'FILE_NOT_FOUND' },
    })
    expect((await stream(daemon, 'sess_0000000000000000', { cmd: 'true' })).status).toBe(404)
  })

  it('to a slow reader does not fill the memory of the daemon, and continues when the reader does', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const socket = connect(Number(new URL(daemon.url).port), '127.0.0.1')
    const body = JSON.stringify({ cmd: 'head -c 60000000 /dev/zero | tr "\\0" x', timeout_ms: 60_000 })
    socket.write(
      `POST /v1/sessions/${id}/exec/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    socket.pause()
    await until(() => daemon.context.live.get(id)?.holds === 1)
    // The reader takes nothing: what the daemon holds settles far below what the command prints.
    let before = -1
    let sameLooks = 0
    const held = await until(() => {
      const { arrayBuffers, heapUsed } = process.memoryUsage()
      const now = Math.round((arrayBuffers + heapUsed) / 1e7)
      sameLooks = now === before ? sameLooks + 1 : 0
      before = now
      return sameLooks === 20 && now * 1e7
    })
    expect(held).toBeLessThan(400e6)
    let received = 0
    socket.on('data', chunk => {
      received += chunk.length
    })
    socket.resume()
    await until(() => received > 60_000_000, 30_000)
    socket.destroy()
  }, 60_000)
})

describe('events', () => {
  it('of all sessions are followed, and resumed after the last event seen', async () => {
    const daemon = await daemonFixture()
    const leave = new AbortController()
    const first = events(await daemon.fetch('/v1/events', { signal: leave.signal }))
    const { id } = await daemon.create()
    const seen = [(await first.next()).value as Event, (await first.next()).value as Event]
    expect(seen.map(e => e.event)).toEqual(['session.creating', 'session.running'])
    leave.abort()
    await first.next().catch(() => undefined)
    await daemon.call('POST', `/v1/sessions/${id}/pause`)
    await daemon.call('POST', `/v1/sessions/${id}/resume`)
    const again = events(await daemon.fetch('/v1/events', { headers: { 'last-event-id': String(seen[0]?.id) } }))
    const rest = [await again.next(), await again.next(), await again.next()].map(r => r.value as Event)
    expect(rest.map(e => e.event)).toEqual(['session.running', 'session.paused', 'session.running'])
    expect(rest[0]?.data).toMatchObject({ session_id: id, status: 'running', reason: 'started' })
    await again.return()
  })

  it('of one session have its whole history, and end with it', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    await daemon.create()
    const response = await daemon.fetch(`/v1/sessions/${id}/events`)
    setTimeout(() => void daemon.call('DELETE', `/v1/sessions/${id}`), 50)
    const types: string[] = []
    for await (const event of events(response)) types.push(event.event)
    expect(types).toEqual(['session.creating', 'session.running', 'session.terminated'])
  })

  it('end with a clear error when the daemon stops', async () => {
    const daemon = await daemonFixture()
    const following = events(await daemon.fetch('/v1/events'))
    const next = following.next()
    await daemon.close()
    expect(JSON.stringify(await next)).toContain('SHUTTING_DOWN')
  })
})

describe('a process’s output', () => {
  it('can be followed, left, and resumed from the last event seen', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const { body } = await daemon.call('POST', `/v1/sessions/${id}/processes`, {
      argv: ['sh', '-c', 'echo one; echo err >&2; read x; echo two'],
      stdin: true,
    })
    const { pid } = body as { pid: number }
    const leave = new AbortController()
    const first = events(await daemon.fetch(`/v1/sessions/${id}/processes/${pid}/output`, { signal: leave.signal }))
    const seen: Event[] = []
    while (seen.length < 2) seen.push((await first.next()).value as Event)
    leave.abort()
    await first.next().catch(() => undefined)
    await daemon.call('POST', `/v1/sessions/${id}/processes/${pid}/stdin`, { text: 'go\n' })
    const rest: Event[] = []
    for await (const event of events(
      await daemon.fetch(`/v1/sessions/${id}/processes/${pid}/output`, { headers: { 'last-event-id': seen.at(-1)?.id ?? '' } }),
    ))
      rest.push(event)
    const text = (list: Event[], kind: string) =>
      list
        .filter(e => e.event === kind)
        .map(e => Buffer.from((e.data as { data_base64: string }).data_base64, 'base64').toString())
        .join('')
    expect([text(seen, 'stdout'), text(seen, 'stderr')]).toEqual(['one\n', 'err\n'])
    expect([text(rest, 'stdout'), rest.at(-1)]).toMatchObject([
      'two\n',
      { event: 'exit', data: { exit_code: 0, timed_out: false } },
    ])
  })
})
