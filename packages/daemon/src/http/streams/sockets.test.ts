import { connect, createServer } from 'node:net'
import { CHANNELS, SOCKET_PROTOCOL, socketProtocols } from '@sandglass/contract'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type ClientOptions, WebSocket } from 'ws'
import { daemonFixture, KEY, type TestDaemon, until } from '../../testing/daemon.fixture.ts'

const AUTH: ClientOptions = { headers: { authorization: `Bearer ${KEY}` } }

function dial(daemon: TestDaemon, path: string, options: ClientOptions = AUTH, protocols: string[] = []): WebSocket {
  const socket = new WebSocket(daemon.url.replace('http', 'ws') + path, protocols, options)
  socket.on('error', () => undefined) // a test that expects to be let in listens itself
  onTestFinished(() => socket.terminate())
  return socket
}
const opened = (socket: WebSocket) =>
  new Promise<void>((resolve, reject) => socket.once('open', () => resolve()).once('error', reject))
const refusal = (socket: WebSocket) =>
  new Promise<{ status: number; code: string }>((resolve, reject) =>
    socket
      .once('open', () => reject(new Error('it was let in')))
      .once('unexpected-response', (_request, response) => {
        let text = ''
        response.on('data', chunk => {
          text += chunk
        })
        response.on('end', () => resolve({ status: response.statusCode ?? 0, code: JSON.parse(text).error.code }))
      }),
  )
const frame = (channel: number, payload: string) => Buffer.concat([Buffer.from([channel]), Buffer.from(payload)])

function collected(socket: WebSocket): { text(channel: number): string; bytes: () => Buffer } {
  const messages: Buffer[] = []
  socket.on('message', data => messages.push(data as Buffer))
  return {
    text: channel =>
      messages
        .filter(m => m[0] === channel)
        .map(m => m.subarray(1).toString())
        .join(''),
    bytes: () => Buffer.concat(messages),
  }
}

/** The status line of an upgrade asked for with a target that no client library would send. */
function rawUpgrade(daemon: TestDaemon, target: string, header = 'accept: */*'): Promise<string> {
  const { hostname, port, host } = new URL(daemon.url)
  const socket = connect(Number(port), hostname)
  socket.write(
    `GET ${target} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${KEY}\r\n${header}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n`,
  )
  return new Promise((resolve, reject) => {
    let text = ''
    socket.on('data', chunk => {
      text += chunk
    })
    socket.once('end', () => resolve(text)).once('error', reject)
  })
}

/** Writes these bytes and resolves with all that comes back until the connection is closed. */
function exchange(daemon: TestDaemon, bytes: string): Promise<string> {
  const { hostname, port } = new URL(daemon.url)
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
  socket.write(bytes)
  return new Promise(resolve => {
    let text = ''
    socket.on('data', chunk => {
      text += chunk
    })
    socket.on('error', () => undefined)
    socket.once('end', () => resolve(text)).once('close', () => resolve(text))
  })
}

describe('an upgrade that is refused', () => {
  it('ends only its own connection when it is sent before the reply to an earlier request', async () => {
    const daemon = await daemonFixture()
    const { host } = new URL(daemon.url)
    const upgrade = `GET /x HTTP/1.1\r\nhost: ${host}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n`
    await exchange(daemon, `GET /healthz HTTP/1.1\r\nhost: ${host}\r\n\r\n${upgrade}`)
    expect((await daemon.call('GET', '/healthz')).status).toBe(200)
  })

  it('leaves no connection behind when the client keeps its side open', async () => {
    const daemon = await daemonFixture()
    const { host } = new URL(daemon.url)
    const upgrade = `GET /v1/nothing HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${KEY}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n`
    expect(await exchange(daemon, upgrade)).toMatch(/^HTTP\/1.1 404/)
    await daemon.close()
  })
})

describe('a WebSocket to a process', () => {
  it('carries stdin, stdout, stderr, the end of input and the exit', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const argv = ['sh', '-c', 'cat; echo bye >&2; exit 7']
    const { pid } = (await daemon.call('POST', `/v1/sessions/${id}/processes`, { argv, stdin: true, hold_output: true }))
      .body as { pid: number }
    const socket = dial(daemon, `/v1/sessions/${id}/processes/${pid}/attach`)
    const got = collected(socket)
    await opened(socket)
    socket.send(frame(CHANNELS.stdin, 'hello '))
    socket.send(frame(CHANNELS.stdin, 'there'))
    socket.send(frame(CHANNELS.stdin_eof, ''))
    const closed = await new Promise<number>(resolve => socket.once('close', resolve))
    expect([got.text(CHANNELS.stdout), got.text(CHANNELS.stderr), JSON.parse(got.text(CHANNELS.exit)), closed]).toEqual([
      'hello there',
      'bye\n',
      { exit_code: 7, timed_out: false, limit_hit: null },
      1000,
    ])
    await until(() => daemon.context.live.get(id)?.holds === 0)
  })

  it('forwards signals, and reports an unknown channel', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const { pid } = (await daemon.call('POST', `/v1/sessions/${id}/processes`, { argv: ['sleep', '60'] })).body as { pid: number }
    const socket = dial(daemon, `/v1/sessions/${id}/processes/${pid}/attach`)
    const got = collected(socket)
    await opened(socket)
    socket.send(frame(CHANNELS.signal, '{"signal":"TERM"}'))
    await until(() => got.text(CHANNELS.exit) !== '')
    expect(JSON.parse(got.text(CHANNELS.exit))).toMatchObject({ exit_code: 143 })
    const other = (await daemon.call('POST', `/v1/sessions/${id}/processes`, { argv: ['sleep', '60'] })).body as { pid: number }
    const second = dial(daemon, `/v1/sessions/${id}/processes/${other.pid}/attach`)
    const told = collected(second)
    await opened(second)
    second.send(frame(99, 'x'))
    const [code, reason] = await new Promise<[number, string]>(resolve =>
      second.once('close', (c, r) => resolve([c, r.toString()])),
    )
    expect([code, reason, JSON.parse(told.text(CHANNELS.error)).code]).toEqual([1011, 'INVALID_REQUEST', 'INVALID_REQUEST'])
  })

  it('delivers 200 MB to a reader that pauses now and then', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const argv = ['head', '-c', '200000000', '/dev/zero']
    const { pid } = (await daemon.call('POST', `/v1/sessions/${id}/processes`, { argv, hold_output: true })).body as {
      pid: number
    }
    const socket = dial(daemon, `/v1/sessions/${id}/processes/${pid}/attach`)
    let bytes = 0
    let pauses = 0
    socket.on('message', (data: Buffer) => {
      if (data[0] === CHANNELS.stdout) bytes += data.length - 1
      if (bytes > (pauses + 1) * 50_000_000) {
        pauses++
        socket.pause()
        setTimeout(() => socket.resume(), 300)
      }
    })
    await new Promise(resolve => socket.once('close', resolve))
    expect([bytes, pauses]).toEqual([200_000_000, 3])
  }, 60_000)
})

describe('a WebSocket to a shell', () => {
  it('is a terminal: typed text runs, the size changes, and the shell survives it', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const socket = dial(daemon, `/v1/sessions/${id}/shells/main/attach?cols=100&rows=30`)
    const got = collected(socket)
    await opened(socket)
    socket.send(frame(CHANNELS.stdin, 'export KEPT=yes; stty size\n'))
    await until(() => got.text(CHANNELS.stdout).includes('30 100'))
    socket.send(frame(CHANNELS.resize, '{"cols":80,"rows":20}'))
    socket.send(frame(CHANNELS.stdin, 'stty size\n'))
    await until(() => got.text(CHANNELS.stdout).includes('20 80'))
    socket.close()
    await until(() => daemon.context.live.get(id)?.holds === 0)
    expect((await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'echo $KEPT' })).body).toMatchObject({ output: 'yes\n' })
  })
})

describe('a WebSocket to a port', () => {
  it('carries raw bytes in both directions, and an empty message ends the direction of the client', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const server = createServer({ allowHalfOpen: true }, socket => {
      socket.pipe(socket)
    })
    onTestFinished(() => void server.close())
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
    const { port } = server.address() as { port: number }
    const socket = dial(daemon, `/v1/sessions/${id}/ports/${port}/dial`)
    const got = collected(socket)
    await opened(socket)
    const sent = Buffer.alloc(3_000_000, 'abc')
    for (let i = 0; i < sent.length; i += 500_000) socket.send(sent.subarray(i, i + 500_000))
    socket.send(Buffer.alloc(0))
    await new Promise(resolve => socket.once('close', resolve))
    expect(got.bytes().equals(sent)).toBe(true)
  })

  it('that is closed is refused before the upgrade', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    expect(await refusal(dial(daemon, `/v1/sessions/${id}/ports/1/dial`))).toEqual({ status: 502, code: 'PORT_CLOSED' })
  })
})

describe('the handshake', () => {
  it('takes the key as a header or, from a browser, as a protocol', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const path = `/v1/sessions/${id}/shells/main/attach`
    expect(await refusal(dial(daemon, path, {}))).toEqual({ status: 401, code: 'UNAUTHORIZED' })
    expect(await refusal(dial(daemon, path, {}, socketProtocols('sk-wrong-0123456789')))).toEqual({
      status: 401,
      code: 'UNAUTHORIZED',
    })
    const socket = dial(daemon, path, {}, socketProtocols(KEY))
    await opened(socket)
    expect(socket.protocol).toBe(SOCKET_PROTOCOL)
  })

  it('from another origin needs the key as a protocol, whatever its headers', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const path = `/v1/sessions/${id}/shells/main/attach`
    const headers = { ...AUTH.headers, origin: 'https://evil.example' }
    expect(await refusal(dial(daemon, path, { headers }))).toEqual({ status: 401, code: 'UNAUTHORIZED' })
    await opened(dial(daemon, path, { origin: 'https://console.example' }, socketProtocols(KEY)))
    await opened(dial(daemon, path, { ...AUTH, origin: daemon.url }))
  })

  it('refuses unknown sessions, processes and paths with their errors', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    expect(await refusal(dial(daemon, '/v1/sessions/sess_0000000000000000/shells/main/attach'))).toMatchObject({
      code: 'SESSION_NOT_FOUND',
    })
    expect(await refusal(dial(daemon, `/v1/sessions/${id}/processes/4000000/attach`))).toMatchObject({
      code: 'PROCESS_NOT_FOUND',
    })
    expect(await refusal(dial(daemon, '/v1/nothing'))).toMatchObject({ status: 404, code: 'ROUTE_NOT_FOUND' })
    expect(await refusal(dial(daemon, `/v1/sessions/${id}/shells/main/attach?cols=0`))).toMatchObject({ code: 'INVALID_REQUEST' })
    expect(await refusal(dial(daemon, `/v1/sessions/${id}/shells/%zz/attach`))).toMatchObject({ code: 'INVALID_REQUEST' })
  })

  it('passes the checks of every other request: host, request id, metrics, and routes by their kind', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const path = `/v1/sessions/${id}/shells/main/attach`
    const rebound = { headers: { ...AUTH.headers, host: 'evil.example' } }
    expect(await refusal(dial(daemon, path, rebound))).toEqual({ status: 400, code: 'INVALID_REQUEST' })
    expect(await rawUpgrade(daemon, '/v1/sessions/nobody/shells/main/attach', 'x-request-id: mine')).toMatch(
      /"request_id":"mine"/,
    )
    expect(await daemon.call('GET', path)).toMatchObject({ status: 404, body: { error: { code: 'ROUTE_NOT_FOUND' } } })
    expect(await refusal(dial(daemon, `/v1/sessions/${id}`))).toEqual({ status: 404, code: 'ROUTE_NOT_FOUND' })
    expect((await daemon.call('GET', '/metrics')).text).toMatch(/http_\w+_count\{route="attachShell",status="404"\} [1-9]/)
  })

  it.each(['//', 'http://[', '/\\//'])('refuses the target %s as no path', async target => {
    const daemon = await daemonFixture()
    const reply = await rawUpgrade(daemon, target)
    expect(reply).toMatch(/^HTTP\/1\.1 40[04] /)
    expect(reply).toMatch(/"code":"(INVALID_REQUEST|ROUTE_NOT_FOUND)"/)
    expect(daemon.logged.filter(line => line.level === 'error')).toEqual([])
  })
})
