import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { buffer, text as readText } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { splice } from './splice.ts'

/** Two ends of one TCP connection. */
async function pair(): Promise<[Socket, Socket]> {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const accepted = once(server, 'connection')
  const near = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true })
  const [far] = (await accepted) as [Socket]
  server.close()
  for (const socket of [near, far]) {
    socket.on('error', () => undefined)
    onTestFinished(() => void socket.destroy())
  }
  return [near, far]
}

async function spliced() {
  const [client, atClient] = await pair()
  const [atServer, server] = await pair()
  return { client, server, finished: splice(atClient, atServer) }
}

test('an end of one side is passed on, and the other side may still send', async () => {
  const { client, server, finished } = await spliced()
  client.end('question')
  expect(await readText(server)).toBe('question')
  server.end('answer, later')
  expect(await readText(client)).toBe('answer, later')
  expect(await finished).toEqual({ bytesToServer: 8, bytesToClient: 13, wasClean: true })
})

test('a failure of one side ends the other', async () => {
  const { client, server, finished } = await spliced()
  client.write('x')
  await once(server, 'data')
  client.resetAndDestroy()
  await once(server, 'end')
  expect(await finished).toEqual({ bytesToServer: 1, bytesToClient: 0, wasClean: false })
})

test('a side that is closed already ends the other', async () => {
  const [, atClient] = await pair()
  const [atServer, server] = await pair()
  atClient.destroy()
  expect(await splice(atClient, atServer)).toMatchObject({ wasClean: false })
  await once(server.resume(), 'end')
})

test('a slow reader stops the writer, and nothing is lost', async () => {
  const { client, server } = await spliced()
  const total = 50 * 1024 * 1024
  let taken = 0
  function* blocks() {
    for (; taken < total; taken += 65536) yield Buffer.alloc(65536)
  }
  Readable.from(blocks()).pipe(client)
  let before = -1
  const hasStopped = () => {
    const isStill = taken > 0 && taken === before
    before = taken
    return isStill
  }
  await expect.poll(hasStopped, { interval: 200 }).toBe(true)
  expect(taken).toBeLessThan(total)
  expect((await buffer(server)).length).toBe(total)
})
