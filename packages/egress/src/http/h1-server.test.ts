import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { HttpError } from './errors.ts'
import type { Exchange } from './message.ts'
import { dialTest, exchangeRaw, startProxy, type TestProxy } from './proxy.fixture.ts'
import { jsonReply, replyWith } from './reply.ts'

/** A server whose handler answers itself. */
const serve = (handler: (exchange: Exchange) => Promise<void>, timeouts?: { headMs: number; idleMs: number; lingerMs: number }) =>
  startProxy({ to: 0, scheme: 'http', handler, timeouts })

/** Answers with what it was sent. */
async function echo(exchange: Exchange): Promise<void> {
  const parts: Buffer[] = []
  for await (const part of exchange.body ?? []) parts.push(part)
  const { method, target } = exchange.head
  const text = `${method} ${target} ${Buffer.concat(parts).toString('latin1')} ${JSON.stringify(exchange.trailers())}`
  await exchange.respond({ status: 200, headers: [['X-Server', 'echo']] }, Buffer.from(text))
}

const requestTo = ({ port }: TestProxy, line: string, ...headers: string[]) =>
  `${[`${line} HTTP/1.1`, `Host: 127.0.0.1:${port}`, ...headers].join('\r\n')}\r\n\r\n`

const bodies = (text: string) =>
  text
    .split('HTTP/1.1 ')
    .slice(1)
    .map(reply => reply.slice(reply.indexOf('\r\n\r\n') + 4))

test('requests that arrive together are answered one after the other, in order', async () => {
  const order: string[] = []
  const proxy = await serve(async exchange => {
    order.push(`start ${exchange.head.target}`)
    await new Promise(resolve => setImmediate(resolve))
    await echo(exchange)
    order.push(`end ${exchange.head.target}`)
  })
  const text = ['/1', '/2', '/3']
    .map(path => requestTo(proxy, `GET ${path}`, ...(path === '/3' ? ['Connection: close'] : [])))
    .join('')
  expect(bodies(await exchangeRaw(proxy.port, text))).toEqual(['GET /1  []', 'GET /2  []', 'GET /3  []'])
  expect(order).toEqual(['start /1', 'end /1', 'start /2', 'end /2', 'start /3', 'end /3'])
})

test('requests are the same wherever their bytes are cut in two', async () => {
  const proxy = await serve(echo)
  const text =
    requestTo(proxy, 'POST /a', 'Transfer-Encoding: chunked') +
    '5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n' +
    requestTo(proxy, 'POST /b', 'Content-Length: 3', 'Connection: close') +
    'abc'
  const expected = ['POST /a hello [["X-T","1"]]', 'POST /b abc []']
  for (let at = 0; at < text.length; at += 1) {
    expect(bodies(await exchangeRaw(proxy.port, [text.slice(0, at), text.slice(at)])), `cut at ${at}`).toEqual(expected)
  }
  expect(bodies(await exchangeRaw(proxy.port, [...text]))).toEqual(expected)
})

test('a malformed request is answered with 400, and nothing after it is read', async () => {
  const proxy = await serve(echo)
  const bad = requestTo(proxy, 'POST /bad', 'Content-Length: 5', 'Transfer-Encoding: chunked')
  const reply = await exchangeRaw(
    proxy.port,
    `${requestTo(proxy, 'GET /good')}${bad}0\r\n\r\n${requestTo(proxy, 'GET /smuggled')}`,
  )
  expect(reply).toMatch(/^HTTP\/1.1 200 .*HTTP\/1.1 400 Bad Request\r\n.*Connection: close\r\n/s)
  expect(proxy.exchanges.map(({ head }) => head.target)).toEqual(['/good'])
  expect(proxy.refused.map(({ kind }) => kind)).toEqual(['malformed'])
})

test('headers of more than 64 KiB are refused', async () => {
  const proxy = await serve(echo)
  const fits = requestTo(proxy, 'GET /', `X: ${'a'.repeat(65_000)}`, 'Connection: close')
  expect(await exchangeRaw(proxy.port, fits)).toMatch(/^HTTP\/1.1 200/)
  expect(await exchangeRaw(proxy.port, requestTo(proxy, 'GET /', `X: ${'a'.repeat(66_000)}`))).toMatch(/^HTTP\/1.1 431/)
  expect(await exchangeRaw(proxy.port, `GET / HTTP/1.1\r\nX: ${'a'.repeat(70_000)}`)).toMatch(/^HTTP\/1.1 431/)
})

test('headers that arrive too slowly are answered with 408, and an idle connection is closed', async () => {
  // Only the time that is tested is short: this process may stop for longer between two bytes.
  const slow = await serve(echo, { headMs: 20, idleMs: 20_000, lingerMs: 1000 })
  expect(await exchangeRaw(slow.port, 'GET / HTTP/1.1\r\n')).toMatch(/^HTTP\/1.1 408/)
  const silent = await serve(echo, { headMs: 20_000, idleMs: 20, lingerMs: 1000 })
  expect(await exchangeRaw(silent.port, '')).toBe('')
  const idle = await serve(echo, { headMs: 20_000, idleMs: 2000, lingerMs: 1000 })
  expect(await exchangeRaw(idle.port, requestTo(idle, 'GET /once'))).toMatch(/GET \/once/)
})

test('bare line feeds are refused at once, not after a timeout', async () => {
  const proxy = await serve(echo)
  expect(await exchangeRaw(proxy.port, 'GET / HTTP/1.1\nHost: x\n\n')).toMatch(/^HTTP\/1.1 400/)
})

test('100 Continue is sent when the handler begins to read the body', async () => {
  const proxy = await serve(echo)
  const head = requestTo(proxy, 'POST /', 'Expect: 100-continue', 'Content-Length: 5', 'Connection: close')
  const socket = dialTest(proxy.port)
  socket.write(head)
  const [first] = await once(socket, 'data')
  expect(String(first)).toBe('HTTP/1.1 100 Continue\r\n\r\n')
  socket.write('hello')
  const [second] = await once(socket, 'data')
  expect(String(second)).toContain('POST / hello')
})

test('a request with Expect that is refused gets no 100, and its connection ends', async () => {
  const proxy = await serve(exchange => replyWith(exchange, jsonReply(403, { error: 'no' })))
  const reply = await exchangeRaw(proxy.port, requestTo(proxy, 'POST /', 'Expect: 100-continue', 'Content-Length: 5'))
  expect(reply).toMatch(/^HTTP\/1.1 403 Forbidden\r\n.*Connection: close\r\n.*\{"error":"no"\}\n$/s)
})

test('a short body that nobody reads is dropped, and the connection goes on', async () => {
  const proxy = await serve(exchange => replyWith(exchange, jsonReply(403, exchange.head.target)))
  const body = 'x'.repeat(100_000)
  const text = `${requestTo(proxy, 'POST /1', 'Content-Length: 100000')}${body}${requestTo(proxy, 'GET /2', 'Connection: close')}`
  expect(bodies(await exchangeRaw(proxy.port, text))).toEqual(['"/1"\n', '"/2"\n'])
})

test('a long body that nobody reads ends the connection after the reply', async () => {
  const proxy = await serve(exchange => replyWith(exchange, jsonReply(403, exchange.head.target)))
  const body = 'x'.repeat(2_000_000)
  const reply = await exchangeRaw(proxy.port, [requestTo(proxy, 'POST /1', 'Content-Length: 2000000'), body])
  expect(reply).toMatch(/Connection: close\r\n.*"\/1"\n$/s)
})

test('a chunked body that nobody reads is dropped up to a limit', async () => {
  const proxy = await serve(exchange => replyWith(exchange, jsonReply(403, exchange.head.target)))
  const chunk = `10000\r\n${'x'.repeat(65536)}\r\n`
  const post = (chunks: number) => `${requestTo(proxy, 'POST /1', 'Transfer-Encoding: chunked')}${chunk.repeat(chunks)}0\r\n\r\n`
  expect(bodies(await exchangeRaw(proxy.port, `${post(2)}${requestTo(proxy, 'GET /2', 'Connection: close')}`))).toHaveLength(2)
  expect(bodies(await exchangeRaw(proxy.port, `${post(30)}${requestTo(proxy, 'GET /2', 'Connection: close')}`))).toHaveLength(1)
})

test('HEAD, 204 and 304 have no body, and the next reply is not mistaken for one', async () => {
  const proxy = await serve(async exchange => {
    const status = Number(exchange.head.target.slice(1))
    await exchange.respond({ status, headers: status === 204 ? [] : [['Content-Length', '5']] }, Buffer.from('hello'))
  })
  const text =
    ['HEAD /200', 'GET /204', 'GET /304'].map(line => requestTo(proxy, line)).join('') +
    requestTo(proxy, 'GET /200', 'Connection: close')
  const reply = await exchangeRaw(proxy.port, text)
  expect(bodies(reply)).toEqual(['', '', '', 'hello'])
  expect(reply).toMatch(/^HTTP\/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP\/1.1 204 No Content\r\n\r\n/)
})

test('an HTTP/1.0 client gets HTTP/1.0, no chunks, and the end of the connection', async () => {
  const proxy = await serve(async exchange => {
    const { Readable } = await import('node:stream')
    await exchange.respond({ status: 200, headers: [] }, Readable.from([Buffer.from('hello '), Buffer.from('world')]))
  })
  const reply = await exchangeRaw(proxy.port, `GET / HTTP/1.0\r\nHost: 127.0.0.1:${proxy.port}\r\nConnection: keep-alive\r\n\r\n`)
  expect(reply).toBe('HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nhello world')
})

test('a plain client that ends its side after the request still gets the reply', async () => {
  const gate = Promise.withResolvers<void>()
  const proxy = await serve(async exchange => {
    await gate.promise
    await echo(exchange)
  })
  const socket = dialTest(proxy.port)
  const reply = once(socket, 'data')
  socket.end(requestTo(proxy, 'GET /late'))
  await expect.poll(() => proxy.exchanges.length).toBe(1)
  gate.resolve()
  expect(String(await reply)).toContain('GET /late')
  await once(socket, 'end')
})

test('the signal aborts when the client goes away', async () => {
  const aborted = Promise.withResolvers<unknown>()
  const proxy = await serve(async exchange => {
    exchange.signal.addEventListener('abort', () => aborted.resolve(exchange.signal.reason))
    await aborted.promise
  })
  const socket = connect(proxy.port, '127.0.0.1')
  socket.write(requestTo(proxy, 'GET /'))
  await expect.poll(() => proxy.exchanges.length).toBe(1)
  socket.resetAndDestroy()
  expect(await aborted.promise).toMatchObject({ kind: 'client_gone' })
})

test('a body that is cut off fails', async () => {
  const failed = Promise.withResolvers<unknown>()
  const proxy = await serve(async exchange => {
    await echo(exchange).catch(failed.resolve)
  })
  dialTest(proxy.port).end(`${requestTo(proxy, 'POST /', 'Content-Length: 10')}12345`)
  expect(await failed.promise).toMatchObject({ kind: 'client_gone' })
})

test('a malformed body fails, and the rest of the connection is not read', async () => {
  const failed = Promise.withResolvers<unknown>()
  const proxy = await serve(async exchange => {
    try {
      await echo(exchange)
    } catch (error) {
      failed.resolve(error)
      throw error
    }
  })
  const text = `${requestTo(proxy, 'POST /', 'Transfer-Encoding: chunked')}5\r\nhelloX\r\n0\r\n\r\n${requestTo(proxy, 'GET /smuggled')}`
  expect(await exchangeRaw(proxy.port, text)).toMatch(/^HTTP\/1.1 400 .*Connection: close/s)
  expect(await failed.promise).toMatchObject({ kind: 'malformed' })
  expect(proxy.exchanges).toHaveLength(1)
})

test('an HttpError of the handler is the reply, any other failure a 500 that says nothing', async () => {
  const proxy = await serve(exchange => {
    throw exchange.head.target === '/502'
      ? new HttpError('unreachable', 'the server cannot be reached')
      : new Error('secret detail')
  })
  expect(await exchangeRaw(proxy.port, requestTo(proxy, 'GET /502', 'Connection: close'))).toMatch(
    /^HTTP\/1.1 502 .*cannot be reached/s,
  )
  const reply = await exchangeRaw(proxy.port, requestTo(proxy, 'GET /'))
  expect(reply).toMatch(/^HTTP\/1.1 500/)
  expect(reply).not.toContain('secret detail')
  expect(proxy.failures).toHaveLength(1)
})

test('a reply whose body fails is cut off, not ended', async () => {
  const { Readable } = await import('node:stream')
  const proxy = await serve(async exchange => {
    async function* broken() {
      yield Buffer.from('part')
      throw new Error('broken')
    }
    await exchange.respond({ status: 200, headers: [] }, Readable.from(broken()))
  })
  const reply = await exchangeRaw(proxy.port, requestTo(proxy, 'GET /'))
  expect(reply).toContain('Transfer-Encoding: chunked')
  expect(reply).not.toContain('0\r\n\r\n')
})

test('a body that is longer or shorter than its Content-Length is cut off', async () => {
  const { Readable } = await import('node:stream')
  for (const length of [3, 7]) {
    const proxy = await serve(exchange =>
      exchange.respond({ status: 200, headers: [['Content-Length', String(length)]] }, Readable.from([Buffer.from('hello')])),
    )
    const [body] = bodies(await exchangeRaw(proxy.port, requestTo(proxy, 'GET /') + requestTo(proxy, 'GET /next')))
    expect(body?.length ?? 0).toBeLessThan(length === 3 ? 4 : 6)
    expect(proxy.failures).toHaveLength(1)
  }
})

test('after an upgrade the handler owns the bytes, those that came early included', async () => {
  const proxy = await serve(async exchange => {
    const raw = exchange.upgrade({ status: 101, headers: [['Sec-WebSocket-Accept', 'x']] })
    raw.pipe(raw)
    await once(raw, 'close')
  })
  const socket = dialTest(proxy.port)
  socket.write(`${requestTo(proxy, 'GET /', 'Connection: Upgrade', 'Upgrade: websocket')}early`)
  let text = ''
  socket.on('data', data => {
    text += data
  })
  await expect.poll(() => text).toMatch(/\r\n\r\nearly$/)
  expect(text).toBe(
    'HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly',
  )
  socket.write('GET /this-is-no-request HTTP/1.1\r\n\r\n')
  await expect.poll(() => text).toMatch(/this-is-no-request/)
  expect(proxy.exchanges).toHaveLength(1)
})

test('bytes after an upgrade request that was declined are the next request, and checked as one', async () => {
  const proxy = await serve(exchange => replyWith(exchange, jsonReply(400, exchange.head.target)))
  const upgrade = requestTo(proxy, 'GET /ws', 'Connection: Upgrade', 'Upgrade: websocket')
  expect(bodies(await exchangeRaw(proxy.port, `${upgrade}${requestTo(proxy, 'GET /2', 'Connection: close')}`))).toEqual([
    '"/ws"\n',
    '"/2"\n',
  ])
  expect(await exchangeRaw(proxy.port, `${upgrade}\x81\x85raw`)).toMatch(/HTTP\/1.1 400.*HTTP\/1.1 400/s)
})

test('a client that sends requests and reads no replies is stopped', async () => {
  const proxy = await serve(exchange => exchange.respond({ status: 200, headers: [] }, Buffer.alloc(100_000)))
  const socket = dialTest(proxy.port)
  socket.pause()
  const many = requestTo(proxy, 'GET /').repeat(2000)
  socket.write(many)
  const served = () => [...proxy.sockets][0]
  await expect.poll(() => served()?.writableNeedDrain).toBe(true)
  expect(served()?.writableLength).toBeLessThan(1_000_000)
  expect(proxy.exchanges.length).toBeLessThan(1000)
})
