import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import { ERRORS } from '@sandglass/contract'
import { describe, expect, it } from 'vitest'
import { daemonFixture, KEY, type TestDaemon, until } from '../../testing/daemon.fixture.ts'

const wire = (body: unknown) => (body as { error: { code: string; message: string; hint?: string; request_id?: string } }).error

describe('a request', () => {
  it('needs the key, on every route but the public ones, on the unix socket too', async () => {
    const daemon = await daemonFixture()
    for (const headers of [{}, { authorization: 'Bearer wrong' }, { authorization: `Basic ${KEY}` }]) {
      for (const path of ['/v1/sessions', '/metrics', '/v1/events', '/nowhere']) {
        const response = await fetch(daemon.url + path, { headers: headers as Record<string, string> })
        expect(response.status).toBe(401)
        expect(wire(await response.json())).toMatchObject({ code: 'UNAUTHORIZED', hint: ERRORS.UNAUTHORIZED.hint })
      }
    }
    for (const path of ['/healthz', '/readyz', '/openapi.json']) expect((await fetch(daemon.url + path)).status).toBe(200)
    expect(await overUnix(daemon, '/v1/sessions', '')).toBe(401)
    expect(await overUnix(daemon, '/v1/sessions', KEY)).toBe(200)
  })

  it('has a request id in its reply, in errors and in the log: the given one if it is valid, else a new one', async () => {
    const daemon = await daemonFixture()
    const given = await daemon.call('GET', '/v1/sessions/nobody', undefined, { 'x-request-id': 'abc-1' })
    expect(given.headers.get('x-request-id')).toBe('abc-1')
    expect(wire(given.body).request_id).toBe('abc-1')
    const made = await daemon.call('GET', '/v1/sessions', undefined, { 'x-request-id': 'no spaces please' })
    expect(made.headers.get('x-request-id')).toMatch(/^req-/)
    await daemon.call('POST', '/v1/sessions', {}, { 'x-request-id': 'creator' })
    expect(daemon.logged.find(l => l.to === 'running')).toMatchObject({ requestId: 'creator', msg: 'session changed state' })
  })

  it.each([
    ['an unknown field', 'POST', '/v1/sessions', { colour: 'red' }, 'colour'],
    ['a value out of range', 'POST', '/v1/sessions', { memory_mb: 64 }, 'memory_mb must be at least 256 MiB, not 64'],
    ['an empty command', 'POST', '/v1/sessions/nobody/exec', { cmd: '' }, 'cmd must not be empty'],
    ['a field of another kind', 'POST', '/v1/sessions', { memory_mb: '1g' }, 'memory_mb must be a'],
    ['an unknown query', 'GET', '/v1/sessions?page=2', undefined, 'page'],
    ['a bad name', 'GET', '/v1/sessions/Not-a-name', undefined, 'id must be a session id or name'],
    ['a body that is not JSON', 'POST', '/v1/sessions', '{"a":', 'not JSON'],
    ['a body that is no object', 'POST', '/v1/sessions', '[]', 'object'],
    ['a template, of which there are none yet', 'POST', '/v1/sessions', { template_id: 'tmpl_other' }, 'template_id'],
    ['contradicting modes', 'POST', '/v1/sessions', { persist: true, mode: 'ephemeral' }, 'contradict'],
    ['a broken cursor', 'GET', '/v1/sessions?cursor=xyz', undefined, 'cursor: '],
    ['a bad idempotency key', 'POST', '/v1/sessions', {}, 'Idempotency-Key'],
  ])('with %s is refused, and the message names the place', async (what, method, path, body, part) => {
    const daemon = await daemonFixture()
    const reply = await daemon.call(method, path, body, what.includes('idempotency') ? { 'idempotency-key': 'a b' } : {})
    expect(reply.status).toBe(400)
    expect(wire(reply.body)).toMatchObject({ code: 'INVALID_REQUEST', message: expect.stringContaining(part) })
  })

  it('may name the environment env_vars; replies name it env', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create({ env_vars: { STAGE: 'one' } })
    expect((await daemon.call('GET', `/v1/sessions/${id}?reveal_env=true`)).body).toMatchObject({ env: { STAGE: 'one' } })
    const cmd = 'echo $STAGE $STEP'
    const exec = await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd, env_vars: { STEP: 'two' } })
    expect(exec.body).toMatchObject({ output: 'one two\n' })
    const stream = await daemon.call('POST', `/v1/sessions/${id}/exec/stream`, { cmd, env_vars: { STEP: 'two' } })
    expect(stream.text).toContain('one two')
    const argv = ['sh', '-c', cmd]
    const { pid } = (await daemon.call('POST', `/v1/sessions/${id}/processes`, { argv, env_vars: { STEP: 'three' } })).body
    const output = await daemon.call('GET', `/v1/sessions/${id}/processes/${pid}/output`)
    expect(output.text).toContain(Buffer.from('one three\n').toString('base64'))
  })

  it.each([
    ['/v1/sessions', {}],
    ['/v1/sessions/nobody/exec', { cmd: 'true' }],
    ['/v1/sessions/nobody/processes', { argv: ['true'] }],
  ])('with env and env_vars is refused: %s', async (path, body) => {
    const daemon = await daemonFixture()
    const reply = await daemon.call('POST', path, { ...body, env: { A: '1' }, env_vars: { A: '1' } })
    expect([reply.status, wire(reply.body).message]).toEqual([400, 'give env or env_vars, not both: they are the same field'])
  })

  it('of another content type than JSON is refused', async () => {
    const daemon = await daemonFixture()
    const reply = await daemon.call('POST', '/v1/sessions', 'name: x', { 'content-type': 'text/yaml' })
    expect([reply.status, wire(reply.body).code]).toEqual([400, 'INVALID_REQUEST'])
    expect(wire(reply.body).hint).toContain("-H 'content-type: application/json'")
  })

  it.each(['/v1/sessions/%ff', '/v1/%zz', `/v1/sessions/${'x'.repeat(5000)}`])(
    'with a path that cannot be read is answered as any other: %.20s',
    async path => {
      const daemon = await daemonFixture()
      const stranger = await fetch(daemon.url + path)
      expect([stranger.status, wire(await stranger.json()).code]).toEqual([401, 'UNAUTHORIZED'])
      const reply = await daemon.call('GET', path)
      expect([reply.status, wire(reply.body).code]).toEqual([400, 'INVALID_REQUEST'])
      expect(reply.headers.get('x-request-id')).toBe(wire(reply.body).request_id)
    },
  )

  it('for an unknown route gets ROUTE_NOT_FOUND', async () => {
    const daemon = await daemonFixture()
    expect(wire((await daemon.call('GET', '/v1/nothing?key=secret')).body)).toMatchObject({
      code: 'ROUTE_NOT_FOUND',
      message: 'no route GET /v1/nothing',
    })
    expect((await daemon.call('PATCH', '/v1/sessions')).status).toBe(404)
  })

  it('with too large a body is refused before the whole body is read', async () => {
    const daemon = await daemonFixture()
    const reply = await daemon.call('POST', '/v1/sessions', { name: 'x'.repeat(3 * 1024 * 1024) })
    expect([reply.status, wire(reply.body).code]).toEqual([413, 'BODY_TOO_LARGE'])
  })

  it('that fails unexpectedly shows the client only the request id', async () => {
    const daemon = await daemonFixture()
    await daemon.context.store.schema.dropTable('session_counts').execute()
    const reply = await daemon.call('GET', '/v1/sessions')
    expect(reply.status).toBe(500)
    expect(wire(reply.body)).toMatchObject({ code: 'INTERNAL', message: 'internal error', request_id: expect.any(String) })
    expect(daemon.logged.find(l => l.level === 'error')).toMatchObject({ requestId: wire(reply.body).request_id })
  })

  it('on loopback with the Host of a web page is refused', async () => {
    const daemon = await daemonFixture()
    expect(await withHost(daemon, 'evil.example')).toBe(400)
    for (const host of ['localhost:1', '127.0.0.1', '[::1]:80', 'app.localhost']) expect(await withHost(daemon, host)).toBe(200)
  })

  it('whose headers never end is disconnected', async () => {
    const daemon = await daemonFixture()
    const socket = connect(Number(new URL(daemon.url).port), '127.0.0.1')
    socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n')
    socket.on('error', () => undefined)
    await until(
      () => new Promise<boolean>(resolve => socket.once('close', () => resolve(true)).once('data', () => resolve(true))),
      25_000,
    )
  }, 60_000)

  it('never puts the key into the log', async () => {
    const daemon = await daemonFixture()
    await daemon.call('POST', '/v1/sessions', { env: { TOKEN: 'hush-hush' } })
    await daemon.call('GET', '/v1/sessions', undefined, { authorization: 'Bearer another-secret' })
    expect(JSON.stringify(daemon.logged)).not.toMatch(/hush-hush|another-secret|sk-test/)
  })
})

describe('the address', () => {
  it('that is not loopback needs a configured api_key', async () => {
    await expect(daemonFixture({ flags: { listen: ['0.0.0.0:0'], 'api-key': [] } })).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
    })
  })

  it('of a running program is never taken over, and that of a dead daemon is', async () => {
    const daemon = await daemonFixture()
    const socket = daemon.addresses.find(a => a.startsWith('unix:')) ?? ''
    await expect(daemonFixture({ flags: { listen: [socket] } })).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
    expect(await overUnix(daemon, '/healthz', KEY)).toBe(200)
  })
})

describe('the descriptions', () => {
  it('openapi.json has every route; metrics count sessions, commands and requests', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'true' })
    const { paths } = (await daemon.call('GET', '/openapi.json')).body as { paths: object }
    expect(paths).toHaveProperty('/v1/sessions/{id}/exec')
    const { text } = await daemon.call('GET', '/metrics')
    expect(text).toContain('sandglass_sessions{state="running"} 1')
    expect(text).toContain('sandglass_execs_total{outcome="ended"} 1')
    expect(text).toMatch(/sandglass_http_request_seconds_count\{route="exec",status="200"\} 1/)
    expect(text).toContain('sandglass_session_create_seconds_count{outcome="ok"} 1')
  })

  it('readyz shows which backend is unavailable, and why', async () => {
    const daemon = await daemonFixture({ backends: () => [] })
    const reply = await daemon.call('GET', '/readyz')
    expect([reply.status, reply.body]).toEqual([503, { status: 'not_ready', backends: [] }])
  })
})

function overUnix(daemon: TestDaemon, path: string, key: string): Promise<number> {
  const socketPath = daemon.addresses.find(a => a.startsWith('unix:'))?.slice(5)
  return new Promise((resolve, reject) => {
    request({ socketPath, path, headers: { authorization: `Bearer ${key}` } }, response => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
      .on('error', reject)
      .end()
  })
}

function withHost(daemon: TestDaemon, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    request(`${daemon.url}/healthz`, { headers: { host } }, response => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
      .on('error', reject)
      .end()
  })
}

it.each([
  ['without the key', {}, 401],
  ['with too much', { authorization: `Bearer ${KEY}` }, 413],
])('a client that sends a large body %s still gets to read the refusal', async (_what, headers, status) => {
  const daemon = await daemonFixture()
  const socketPath = daemon.addresses.find(a => a.startsWith('unix:'))?.slice(5)
  const answered = new Promise<number>((resolve, reject) => {
    request(
      { socketPath, method: 'POST', path: '/v1/sessions', headers: { ...headers, 'content-type': 'application/json' } },
      response => {
        response.resume()
        resolve(response.statusCode ?? 0)
      },
    )
      .on('error', reject)
      .end(Buffer.alloc(8_000_000, 'x'))
  })
  expect(await answered).toBe(status)
})

describe('a body that does not come', () => {
  /** Sends the head of a request and one byte of its body, then more while it answers, and gives all that comes back. */
  async function stalled({ url }: TestDaemon, method: string, path: string, more = 0): Promise<{ text: string; sent: number }> {
    const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1' })
    const type = method === 'PUT' ? 'application/octet-stream' : 'application/json'
    const head = [`${method} ${path} HTTP/1.1`, 'host: localhost', `authorization: Bearer ${KEY}`, `content-type: ${type}`]
    socket.write(`${[...head, 'content-length: 1000'].join('\r\n')}\r\n\r\n{`)
    let [text, sent] = ['', 0]
    socket.on('data', data => {
      text += data
    })
    const drip = setInterval(() => sent < more && socket.write('x') && sent++, 200)
    await once(socket, 'close')
    clearInterval(drip)
    return { text, sent }
  }

  it.each([
    ['of JSON', 'POST', '/v1/sessions'],
    ['of JSON, for a path that does not exist', 'POST', '/v1/nothing'],
    ['of a file', 'PUT', '/files?path=slow'],
  ])('%s ends the request with 408, and what it wrote is not kept', async (_, method, path) => {
    const daemon = await daemonFixture({ flags: { 'slow-body-seconds': ['1'] } })
    const { id } = await daemon.create()
    const { text } = await stalled(daemon, method, path.startsWith('/files') ? `/v1/sessions/${id}${path}` : path)
    expect(text).toContain('HTTP/1.1 408')
    expect(text).toContain('"code":"BODY_TIMEOUT"')
    expect((await daemon.call('GET', `/v1/sessions/${id}/fs/stat?path=slow`)).status).toBe(404)
    expect((await daemon.call('GET', '/v1/sessions')).status).toBe(200)
  })

  it('a slow body that keeps arriving is accepted', async () => {
    const daemon = await daemonFixture({ flags: { 'slow-body-seconds': ['3'] } })
    const { id } = await daemon.create()
    const { sent } = await stalled(daemon, 'PUT', `/v1/sessions/${id}/files?path=slow`, 20)
    expect(sent).toBe(20)
  })
})
