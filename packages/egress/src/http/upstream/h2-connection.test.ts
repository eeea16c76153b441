import { constants, type IncomingHttpHeaders, type ServerHttp2Stream, sensitiveHeaders } from 'node:http2'
import { expect, test } from 'vitest'
import { answerTo, ask, openH2, startH2Server } from '../h2.fixture.ts'

test.each([
  ['resets the stream', (stream: ServerHttp2Stream) => stream.destroy(new Error('broken'))],
  ['closes the connection', (stream: ServerHttp2Stream) => stream.session?.destroy()],
])('a reply is not complete if the server %s within the body', async (_what, cut) => {
  const { port: to } = await startH2Server(stream => {
    stream.respond({ ':status': 200 })
    stream.write('part')
    setImmediate(cut, stream)
  })
  const { session } = await openH2({ to })
  const stream = session.request({ ':path': '/' })
  await expect(answerTo(stream)).rejects.toThrow()
  expect(stream.rstCode).not.toBe(constants.NGHTTP2_NO_ERROR)
})

test('a server that goes away between two requests is dialled again', async () => {
  const { port: to, server, sessions } = await startH2Server(stream => stream.respond({ ':status': 200 }, { endStream: true }))
  const { session } = await openH2({ to })
  server.once('session', upstream => upstream.once('stream', stream => stream.once('close', () => upstream.close())))
  expect((await ask(session)).headers[':status']).toBe(200)
  expect((await ask(session)).headers[':status']).toBe(200)
  await expect.poll(() => sessions()).toBeGreaterThan(0)
  expect((await ask(session)).headers[':status']).toBe(200)
})

test('a server that answers before it has the body is heard', async () => {
  const { port: to } = await startH2Server(stream => {
    stream.respond({ ':status': 413 })
    stream.end('too large')
  })
  const { session } = await openH2({ to })
  const stream = session.request({ ':method': 'PUT', ':path': '/' })
  stream.on('error', () => undefined)
  stream.write(Buffer.alloc(10_000))
  expect(await answerTo(stream)).toMatchObject({ headers: { ':status': 413 }, body: 'too large' })
})

test('a server that refuses a stream gets the request again, over another connection', async () => {
  let count = 0
  const { port: to } = await startH2Server(stream => {
    count += 1
    if (count === 1) stream.close(constants.NGHTTP2_REFUSED_STREAM)
    else stream.respond({ ':status': 200 }, { endStream: true })
  })
  const { session } = await openH2({ to })
  expect((await ask(session)).headers[':status']).toBe(200)
  expect(count).toBe(2)
})

test('too many informational replies end the request', async () => {
  const { port: to } = await startH2Server(stream => {
    for (let count = 0; count < 100; count += 1) stream.additionalHeaders({ ':status': 103, 'x-number': String(count) })
    stream.respond({ ':status': 200 }, { endStream: true })
  })
  const { session } = await openH2({ to })
  expect((await ask(session)).headers[':status']).toBe(502)
})

test('credentials never enter the compression table', async () => {
  const seen = Promise.withResolvers<IncomingHttpHeaders>()
  const { port: to } = await startH2Server((stream, headers) => {
    seen.resolve(headers)
    stream.respond({ ':status': 200 }, { endStream: true })
  })
  const { session } = await openH2({ to })
  const secret = { authorization: 'Bearer x', cookie: 'a=b', 'x-api-key': 'k', 'x-amz-security-token': 't' }
  await ask(session, { ...secret, accept: '*/*' })
  const headers = await seen.promise
  expect(headers).toMatchObject({ ...secret, accept: '*/*' })
  const sensitive: string[] = Reflect.get(headers, sensitiveHeaders)
  expect(sensitive.toSorted()).toEqual(Object.keys(secret).toSorted())
})
