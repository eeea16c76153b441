import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import type { SandglassError } from '@sandglass/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { expect, it, onTestFinished } from 'vitest'
import { watchBody } from './body-deadline.ts'

it('a body with a total deadline is ended at the deadline, although bytes keep arriving', async () => {
  const cut = Promise.withResolvers<SandglassError>()
  const server = createServer((raw, response) => {
    raw.on('error', () => undefined).resume()
    const reply = { sent: false, raw: response } as unknown as FastifyReply
    watchBody({ raw, socket: raw.socket } as FastifyRequest, reply, { stallMs: 4000, totalMs: 1000 }, error => {
      cut.resolve(error)
      response.end()
    })
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => undefined)
  socket.write('POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n')
  const drip = setInterval(() => socket.write('x'), 50)
  onTestFinished(() => clearInterval(drip))
  expect((await cut.promise).detail).toEqual({ stalled: false, seconds: 1 })
  await expect.poll(() => socket.destroyed).toBe(true)
})
