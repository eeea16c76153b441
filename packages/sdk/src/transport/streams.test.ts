import type { ServerResponse } from 'node:http'
import { CHANNELS, SOCKET_FAILED, socketProtocols } from '@sandglass/contract'
import { expect, test } from 'vitest'
import { SandboxClient } from '../index.ts'
import { nodeFetch } from '../node/index.ts'
import { json, SESSION, startServer } from './server.fixture.ts'

const KEY = 'key-for-tests-0000'
const sessionAt = (baseUrl: string) => new SandboxClient({ baseUrl, apiKey: KEY }).session('x')
const frame = (channel: number, data: string) => Buffer.concat([Buffer.of(channel), Buffer.from(data)])
const event = (reply: ServerResponse, type: string, data: unknown, id?: number) =>
  reply.write(`${id === undefined ? '' : `id: ${id}\n`}event: ${type}\ndata: ${JSON.stringify(data)}\n\n`)

async function allOf(body: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const pieces: Uint8Array[] = []
  for await (const piece of body) pieces.push(piece)
  return pieces
}

const DONE = { exit_code: 3, cwd: '/workspace', truncated: false, timed_out: false, shell_exited: false, duration_ms: 1.5 }

test('execStream gives chunks and then the result, to either kind of reader', async () => {
  await using server = await startServer((_, reply) => {
    event(reply, 'chunk', { chunk: 'one', timestamp: 't' })
    event(reply, 'chunk', { chunk: 'two', timestamp: 't' })
    event(reply, 'done', DONE)
    reply.end()
  })
  const stream = sessionAt(server.url).execStream('make')
  const chunks: string[] = []
  for await (const { chunk } of stream) chunks.push(chunk)
  expect(chunks).toEqual(['one', 'two'])
  expect((await stream.result).exitCode).toBe(3)
  expect((await sessionAt(server.url).execStream('make').result).durationMs).toBe(1.5)
})

test('execStream calls onWaiting while the shell is busy, and leaving its loop closes the connection', async () => {
  for (const fetch of [undefined, nodeFetch()]) {
    let isClosed = false
    await using server = await startServer((_, reply) => {
      reply.on('close', () => {
        isClosed = true
      })
      event(reply, 'waiting', { shell: 'main', timestamp: 't' })
      event(reply, 'started', { shell: 'main', timestamp: 't' })
      event(reply, 'chunk', { chunk: 'one', timestamp: 't' })
    })
    const waits: boolean[] = []
    const session = new SandboxClient({ baseUrl: server.url, apiKey: KEY, ...(fetch ? { fetch } : {}) }).session('x')
    const options = { detach: true, stdinPath: 'in', env: { some_NAME: 'v' }, onWaiting: (is: boolean) => void waits.push(is) }
    const stream = session.execStream('make', options)
    for await (const _ of stream) break
    await expect(stream.result).rejects.toMatchObject({
      name: 'AbortError',
      message: expect.stringContaining('not read to its end'),
    })
    await expect.poll(() => isClosed).toBe(true)
    expect(waits).toEqual([true, false])
    expect(JSON.parse(server.requests[0]?.text ?? '')).toEqual({
      cmd: 'make',
      detach: true,
      stdin_path: 'in',
      env: { some_NAME: 'v' },
    })
  }
})

test('a shell is interrupted by its name', async () => {
  await using server = await startServer((_, reply) => json(reply, 200, { interrupted: true }))
  expect(await sessionAt(server.url).shells.interrupt()).toBe(true)
  await sessionAt(server.url).shells.interrupt('main@root')
  expect(server.requests.map(r => r.url)).toEqual([
    '/v1/sessions/x/shells/main/interrupt',
    '/v1/sessions/x/shells/main%40root/interrupt',
  ])
})

test('execStream fails when the stream breaks off or carries an error, and is never sent again', async () => {
  await using server = await startServer((request, reply) => {
    event(reply, 'chunk', { chunk: 'one', timestamp: 't' })
    if (request.text.includes('broken')) reply.write('', () => reply.destroy())
    else event(reply, 'error', { error: { code: 'RUNNER_LOST', message: 'lost it', detail: { id: 'x' } } })
  })
  const broken = sessionAt(server.url).execStream('broken')
  const read = async () => {
    for await (const _ of broken);
  }
  await expect(read()).rejects.toMatchObject({ code: 'DAEMON_UNREACHABLE' })
  await expect(broken.result).rejects.toMatchObject({
    code: 'DAEMON_UNREACHABLE',
    hint: expect.stringContaining('may still be running in the session: `sandglass ps x`'),
  })
  await expect(sessionAt(server.url).execStream('x').result).rejects.toMatchObject({ code: 'RUNNER_LOST' })
  expect(server.requests).toHaveLength(2)
})

test('when the connection to a command or process is lost, the error has a hint that it may still run', async () => {
  await using server = await startServer(
    (_, reply) => void reply.destroy(),
    socket => socket.close(1012, 'the daemon is stopping'),
  )
  const mayRun = (next: string) => ({ code: 'DAEMON_UNREACHABLE', hint: expect.stringContaining(next) })
  for (const fetch of [undefined, nodeFetch()]) {
    const session = new SandboxClient({ baseUrl: server.url, apiKey: KEY, ...(fetch ? { fetch } : {}) }).session('x')
    await expect(session.exec('make')).rejects.toMatchObject(mayRun('`sandglass interrupt x` ends it'))
    await expect(session.execStream('make').result).rejects.toMatchObject(mayRun('`sandglass interrupt x` ends it'))
    const attached = await session.processes.attach(12)
    await expect(attached.exit).rejects.toMatchObject(mayRun('`sandglass attach x --pid 12`'))
  }
  const nobody = new SandboxClient({ baseUrl: 'http://127.0.0.1:1', apiKey: KEY }).session('x')
  await expect(nobody.exec('make')).rejects.toMatchObject(mayRun('`sandglass serve`'))
})

test.each([
  ['ended', { status: 'failed', reason: 'crashed', error_message: 'it crashed' }, 'ended while the command ran: it crashed'],
  ['runs', { status: 'running' }, 'the transfer from session calm-otter was interrupted'],
])('the error of an interrupted download shows the state of a session that %s', async (_, state, message) => {
  await using server = await startServer((request, reply) => {
    if (request.url?.endsWith('/x')) json(reply, 200, { ...SESSION, ...state })
    else reply.writeHead(200, { 'content-length': '10' }).write('five!', () => reply.destroy())
  })
  for (const fetch of [undefined, nodeFetch()]) {
    const { files } = new SandboxClient({ baseUrl: server.url, apiKey: KEY, ...(fetch ? { fetch } : {}) }).session('x')
    for (const body of [await files.download('/a'), await files.getArchive('/a')])
      await expect(allOf(body)).rejects.toThrow(message)
  }
})

test('an aborted download rejects with the reason of the signal', async () => {
  await using server = await startServer((_, reply) => void reply.writeHead(200, { 'content-length': '10' }).write('five!'))
  for (const fetch of [undefined, nodeFetch()]) {
    const control = new AbortController()
    const { files } = new SandboxClient({ baseUrl: server.url, apiKey: KEY, ...(fetch ? { fetch } : {}) }).session('x')
    const read = allOf(await files.download('/a', { signal: control.signal }))
    control.abort(new Error('enough'))
    await expect(read).rejects.toThrow('enough')
  }
  expect(server.requests).toHaveLength(2)
})

test('events are resumed after the last one when the connection was lost', async () => {
  await using server = await startServer((request, reply) => {
    const from = Number(request.headers['last-event-id'] ?? 0)
    event(reply, 'session.running', { id: from + 1, session_id: SESSION.id }, from + 1)
    reply.write(': keep-alive\n\n', () => reply.destroy())
  })
  const ids: number[] = []
  for await (const record of new SandboxClient({ baseUrl: server.url, apiKey: KEY }).events({ lastEventId: '4' })) {
    ids.push(record.id)
    if (ids.length === 3) break
  }
  expect(ids).toEqual([5, 6, 7])
})

test('a watch that was interrupted says that changes may be missing', async () => {
  await using server = await startServer((_, reply) => {
    event(reply, 'change', { type: 'created', path: '/workspace/a' })
    reply.write('', () => reply.destroy())
  })
  const seen: string[] = []
  for await (const change of sessionAt(server.url).files.watch('/workspace')) {
    seen.push(change.type)
    if (seen.length === 3) break
  }
  expect(seen).toEqual(['created', 'overflow', 'created'])
})

test('process output is resumed by position and ends with the exit', async () => {
  await using server = await startServer((request, reply) => {
    const data = (text: string) => ({ data_base64: Buffer.from(text).toString('base64') })
    if (!request.headers['last-event-id']) {
      event(reply, 'stdout', data('a'), 1)
      reply.write('', () => reply.destroy())
    } else {
      event(reply, 'stderr', data('\xff'), 2)
      event(reply, 'exit', { exit_code: 9, timed_out: false })
      reply.end()
    }
  })
  const output = sessionAt(server.url).processes.output(7)
  expect((await output.next()).value).toEqual({ stream: 'stdout', data: Uint8Array.of(97) })
  expect((await output.next()).value).toEqual({ stream: 'stderr', data: new Uint8Array(Buffer.from('\xff')) })
  expect(await output.next()).toEqual({ done: true, value: { exitCode: 9, timedOut: false } })
})

test('an attachment carries streams, size, signals and the exit, with the key offered as a subprotocol', async () => {
  const got: string[] = []
  let offered: string | undefined
  await using server = await startServer(
    (_, reply) => json(reply, 200, SESSION),
    (socket, request) => {
      offered = request.headers['sec-websocket-protocol']
      socket.on('message', (data: Buffer) => {
        got.push(`${data[0]}:${data.subarray(1)}`)
        if (data[0] !== CHANNELS.signal) return
        socket.send(frame(CHANNELS.stdout, 'out'))
        socket.send(frame(CHANNELS.stderr, 'err'))
        socket.send(frame(CHANNELS.exit, '{"exit_code":143,"timed_out":false}'))
      })
    },
  )
  const attached = await sessionAt(server.url).processes.attach(12)
  await attached.write('typed')
  await attached.resize({ cols: 80, rows: 24 })
  await attached.end()
  await attached.signal('TERM')
  const output: string[] = []
  for await (const { stream, data } of attached) output.push(`${stream}=${new TextDecoder().decode(data)}`)
  expect(output).toEqual(['stdout=out', 'stderr=err'])
  expect(await attached.exit).toEqual({ exitCode: 143, timedOut: false })
  expect(got).toEqual(['0:typed', '5:{"cols":80,"rows":24}', '4:', '6:{"signal":"TERM"}'])
  expect(offered?.split(/, ?/)).toEqual(socketProtocols(KEY))
  expect(Buffer.from(offered?.split('.bearer.')[1] ?? '', 'base64url').toString()).toBe(KEY)
})

test('the exit of an attached process is known without reading its output, and a loop can be continued later', async () => {
  const many = 40
  await using server = await startServer(
    (_, reply) => json(reply, 200, SESSION),
    socket => {
      // More than a socket holds back for a reader that does not come.
      for (let i = 0; i < many; i++) socket.send(frame(CHANNELS.stdout, 'x'.repeat(100_000)))
      socket.on('message', () => {
        socket.send(frame(CHANNELS.stdout, 'last'))
        socket.send(frame(CHANNELS.exit, '{"exit_code":4,"timed_out":false}'))
      })
    },
  )
  const { processes } = sessionAt(server.url)
  const awaited = await processes.attach(1)
  await awaited.end()
  expect((await awaited.exit).exitCode).toBe(4)
  const waited = await processes.attach(1)
  await waited.end()
  expect((await waited.wait()).exitCode).toBe(4)
  const looped = await processes.attach(1)
  const { exit } = looped
  const output = looped[Symbol.asyncIterator]()
  expect((await output.next()).value).toMatchObject({ data: { length: 100_000 } })
  await looped.end()
  let count = 1
  for await (const _ of output) count++
  expect(count).toBe(many + 1)
  expect((await exit).exitCode).toBe(4)
  const late = await processes.attach(1)
  void late.exit
  await new Promise(resolve => setTimeout(resolve, 1)) // the turn in which a loop would have kept the output
  const rest = late[Symbol.asyncIterator]()
  await late.end()
  let shown = ''
  for await (const { data } of rest) shown = new TextDecoder().decode(data)
  expect(shown).toBe('last')
  const closed = await processes.attach(1)
  closed.close()
  await expect(closed.exit).rejects.toMatchObject({ code: 'DAEMON_UNREACHABLE' })
})

test('a socket that the daemon refuses or closes in error says why', async () => {
  await using refusing = await startServer((_, reply) =>
    json(reply, 404, { error: { code: 'SESSION_NOT_FOUND', message: 'no session x', detail: { id: 'x' } } }),
  )
  await expect(sessionAt(refusing.url).attachShell()).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' })
  await using closing = await startServer(
    (_, reply) => json(reply, 200, SESSION),
    socket => socket.close(SOCKET_FAILED, 'RUNNER_LOST'),
  )
  const read = async () => {
    for await (const _ of await sessionAt(closing.url).dial(99));
  }
  await expect(read()).rejects.toMatchObject({ code: 'RUNNER_LOST', exitCode: 3 })
})

test('aborting closes a dialled port', async () => {
  const closed = Promise.withResolvers<number>()
  await using server = await startServer(
    (_, reply) => json(reply, 200, SESSION),
    socket => void socket.on('close', code => closed.resolve(code)),
  )
  const controller = new AbortController()
  const port = await sessionAt(server.url).dial(80, { signal: controller.signal })
  controller.abort(new Error('enough'))
  expect(await closed.promise).toBe(1000)
  await expect(port[Symbol.asyncIterator]().next()).rejects.toThrow('enough')
})
