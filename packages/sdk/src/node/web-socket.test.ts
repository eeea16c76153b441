import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SOCKET_FAILED } from '@sandglass/contract'
import { expect, onTestFinished, test } from 'vitest'
import type { WebSocket } from 'ws'
import { json, SESSION, startServer } from '../transport/server.fixture.ts'
import type { ByteSocket } from '../transport/socket.ts'
import { connectSocket, SandboxClient } from './index.ts'

const KEY = 'key-for-tests-0000'
/** Bytes that a socket holds before it waits: see socket.ts. */
const HIGH_WATER = 1024 * 1024
const POLL = { timeout: 10_000 }

/** A socket of each kind to a server of another implementation. */
async function eachKind(
  onSocket: (socket: WebSocket) => void,
  check: (dial: (signal?: AbortSignal) => Promise<ByteSocket>) => Promise<void>,
) {
  const folder = mkdtempSync(join(tmpdir(), 'sg-ws-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const listenOn of [join(folder, 'socket'), 0]) {
    await using server = await startServer((_, reply) => json(reply, 200, SESSION), onSocket, listenOn)
    const client =
      listenOn === 0
        ? new SandboxClient({ baseUrl: server.url, apiKey: KEY })
        : connectSocket({ socketPath: String(listenOn), apiKey: KEY })
    await check(signal => client.session('x').dial(80, { signal }))
  }
}

async function collect(socket: ByteSocket, count: number): Promise<Buffer[]> {
  const messages: Buffer[] = []
  for await (const message of socket) {
    messages.push(Buffer.from(message))
    if (messages.length === count) break
  }
  return messages
}

test('messages are echoed unchanged, with each of the three length encodings', async () => {
  const echo = (socket: WebSocket) => void socket.on('message', data => socket.send(data))
  await eachKind(echo, async dial => {
    const sizes = [0, 1, 125, 126, 0xffff, 0x1_0000, 1024 * 1024]
    const socket = await dial()
    const sent = sizes.map(size => Buffer.alloc(size, `${size} bytes `))
    for (const data of sent) await socket.write(new Uint8Array(data))
    const got = await collect(socket, sent.length)
    expect(got.map((data, i) => data.equals(sent[i] ?? Buffer.alloc(0)))).toEqual(sizes.map(() => true))
  })
})

test('a message in parts is one message, with a ping between its parts answered', async () => {
  const pongs: string[] = []
  const inParts = (socket: WebSocket) => {
    socket.on('pong', data => pongs.push(data.toString()))
    socket.send('one ', { fin: false, binary: true })
    socket.ping('are you there')
    socket.send('', { fin: false })
    socket.send('message', { fin: true })
    socket.send('é as text')
  }
  await eachKind(inParts, async dial => {
    const [first, second] = await collect(await dial(), 2)
    expect([first?.toString(), second?.toString()]).toEqual(['one message', 'é as text'])
    await expect.poll(() => pongs.shift()).toBe('are you there')
  })
})

test('both ends learn of a close, with its code, whichever side begins', async () => {
  const codes: number[] = []
  const greet = (socket: WebSocket) => void socket.on('close', code => codes.push(code)).send('hello')
  await eachKind(greet, async dial => {
    expect(await collect(await dial(), 1)).toHaveLength(1) // leaving the loop closes
    await expect.poll(() => codes.shift()).toBe(1000)
  })
  const done = (socket: WebSocket) => {
    socket.send('last')
    socket.close(1000)
  }
  await eachKind(done, async dial => expect(await collect(await dial(), 9)).toHaveLength(1))
  await eachKind(
    socket => socket.close(SOCKET_FAILED, 'RUNNER_LOST'),
    async dial => expect(collect(await dial(), 1)).rejects.toMatchObject({ code: 'RUNNER_LOST' }),
  )
  await eachKind(
    socket => socket.terminate(),
    async dial => expect(collect(await dial(), 1)).rejects.toMatchObject({ code: 'DAEMON_UNREACHABLE' }),
  )
})

test('an abort closes an open socket, and gives up one that is opening', async () => {
  const closed: number[] = []
  await eachKind(
    socket => void socket.on('close', code => closed.push(code)),
    async dial => {
      const control = new AbortController()
      const socket = await dial(control.signal)
      control.abort(new Error('enough'))
      await expect(collect(socket, 1)).rejects.toThrow('enough')
      const early = new AbortController()
      const opening = dial(early.signal)
      early.abort(new Error('too early'))
      await expect(opening).rejects.toThrow('too early')
      await expect.poll(() => closed.shift()).toBe(1000)
    },
  )
})

test('a refused upgrade gives the error of the reply, and asks nothing else', async () => {
  await using server = await startServer((_, reply) =>
    json(reply, 409, { error: { code: 'WRONG_STATE', message: 'it is paused', detail: { id: 'x', state: 'paused' } } }),
  )
  const session = new SandboxClient({ baseUrl: server.url, apiKey: KEY }).session('x')
  await expect(session.attachShell()).rejects.toMatchObject({ code: 'WRONG_STATE', detail: { state: 'paused' } })
  expect(server.requests).toHaveLength(1)
})

test('a socket whose reader pauses buffers a bounded amount, and the reader gets the rest later', async () => {
  const PIECE = Buffer.alloc(256 * 1024, 'x')
  const PIECES = 100
  const client = latestClient()
  const flood = (socket: WebSocket) => {
    for (let i = 0; i < PIECES; i++) socket.send(PIECE)
  }
  await eachKind(flood, async dial => {
    const socket = await dial()
    const reader = socket[Symbol.asyncIterator]()
    await reader.next()
    await expect.poll(() => client().isPaused(), POLL).toBe(true)
    expect(client().bytesRead).toBeLessThan(3 * HIGH_WATER)
    let bytes = PIECE.length
    while (bytes < PIECES * PIECE.length) bytes += (await reader.next()).value?.length ?? Number.NaN
    expect(bytes).toBe(PIECES * PIECE.length)
    await reader.return()
  })
})

test('a writer waits while the other side reads nothing', async () => {
  const client = latestClient()
  let server: WebSocket | undefined
  const rest = (socket: WebSocket) => {
    server = socket
    socket.pause()
  }
  await eachKind(rest, async dial => {
    const socket = await dial()
    const piece = new Uint8Array(256 * 1024)
    let isEnough = false
    const writing = (async () => {
      // The kernel takes some of it; 128 MiB are more than it may.
      for (let i = 0; i < 512 && !isEnough; i++) await socket.write(piece)
    })()
    await expect.poll(() => client().writableLength, POLL).toBeGreaterThan(HIGH_WATER)
    expect(client().writableLength).toBeLessThan(2 * HIGH_WATER)
    isEnough = true
    server?.resume()
    await writing
    socket.close()
  })
})

test.each([
  ['a mask', [0x82, 0x81, 0, 0, 0, 0, 1]],
  ['two messages mixed', [0x02, 1, 1, 0x82, 1, 1]],
  ['a text that is not UTF-8', [0x81, 1, 0xff]],
  ['a continuation of nothing', [0x80, 1, 1]],
])('a server that sends %s is disconnected', async (_, bytes) => {
  const closed = Promise.withResolvers<number>()
  await using server = await startServer(
    (_, reply) => json(reply, 200, SESSION),
    socket => {
      socket.on('close', closed.resolve)
      Reflect.get(socket, '_socket').write(Buffer.from(bytes))
    },
  )
  const socket = await new SandboxClient({ baseUrl: server.url, apiKey: KEY }).session('x').dial(80)
  await expect(collect(socket, 1)).rejects.toMatchObject({ code: 'DAEMON_UNREACHABLE' })
  expect([1002, 1007]).toContain(await closed.promise)
})

test('a server that never answers the close frame is disconnected', async () => {
  const gone = Promise.withResolvers<unknown>()
  await using server = await startServer(
    (_, reply) => json(reply, 200, SESSION),
    socket => {
      const under = Reflect.get(socket, '_socket')
      under.removeAllListeners('data').on('data', () => undefined) // the close frame is not looked at
      void once(under, 'close').then(gone.resolve)
    },
  )
  const socket = await new SandboxClient({ baseUrl: server.url, apiKey: KEY }).session('x').dial(80)
  socket.close()
  await gone.promise
})

/** Gives the connection that this process opened last. */
function latestClient(): () => Socket {
  let latest: Socket | undefined
  const onSocket = (message: unknown) => {
    latest = (message as { socket: Socket }).socket
  }
  subscribe('net.client.socket', onSocket)
  onTestFinished(() => void unsubscribe('net.client.socket', onSocket))
  return () => {
    if (!latest) throw new Error('no connection was opened')
    return latest
  }
}
