import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { temporaryFolder, until } from '../testing/daemon.fixture.ts'
import { connectControl } from './control.ts'

type Request = { id: number; type: string }

/** A server that answers hello, and everything else as the test says. */
async function serverFixture(answer: (request: Request, socket: Socket) => void) {
  const path = join(await temporaryFolder(), 'control')
  const server = createServer(socket => {
    let text = ''
    socket.on('error', () => undefined) // the test cuts connections
    socket.on('data', data => {
      const lines = (text + data).split('\n')
      text = lines.pop() ?? ''
      for (const line of lines) {
        const request = JSON.parse(line) as Request
        if (request.type === 'hello') reply(socket, { id: request.id, version: 1, pid: 7, held: [] })
        else answer(request, socket)
      }
    })
  })
  await new Promise<void>(resolve => server.listen(path, resolve))
  onTestFinished(() => void server.close())
  const seen: { events: unknown[]; losses: number } = { events: [], losses: 0 }
  const control = await connectControl(path, {
    onEvent: event => void seen.events.push(event),
    onLost: () => {
      seen.losses++
    },
  })
  onTestFinished(() => control.close())
  return { control, seen }
}

const reply = (socket: Socket, value: object) => void socket.write(`${JSON.stringify(value)}\n`)
const HELD = {
  ...{
    id: 'appr_0123456789abcdef',
    sessionId: 's',
    sessionName: 'n',
    status: 'pending',
    method: 'GET',
    url: 'http://a/',
    host: 'a',
  },
  ...{ port: 80, scope: null, requests: 1, requestedAt: 1, expiresAt: 2, answeredAt: null },
}

it('replies find their requests in any order, and events come between them', async () => {
  const waiting: Request[] = []
  const { control, seen } = await serverFixture((request, socket) => {
    waiting.push(request)
    if (waiting.length < 2) return
    reply(socket, { type: 'held', held: HELD })
    reply(socket, { id: 999, connections: 1 })
    for (const { id, type } of waiting.toReversed())
      reply(socket, type === 'metrics' ? { id, hosts: [], connections: 3 } : { id, sessions: [] })
  })
  const [metrics, sessions] = await Promise.all([control.request('metrics', {}), control.request('list_sessions', {})])
  expect([metrics.connections, sessions.sessions, seen.events.length]).toEqual([3, [], 1])
})

it('a failure is the message of the process, and a reply of another form is refused', async () => {
  const { control } = await serverFixture(({ id, type }, socket) =>
    reply(socket, type === 'metrics' ? { id, hosts: 'none' } : { id, error: 'no such session' }),
  )
  await expect(control.request('remove_session', { session: 'x' })).rejects.toThrow('no such session')
  await expect(control.request('metrics', {})).rejects.toThrow()
})

it('a request without a reply fails after its deadline, and the connection stays', async () => {
  const { control, seen } = await serverFixture(({ id, type }, socket) => {
    if (type === 'list_sessions') reply(socket, { id, sessions: [] })
  })
  await expect(control.request('metrics', {}, 20)).rejects.toThrow('no answer within 20 ms')
  expect(await control.request('list_sessions', {})).toEqual({ sessions: [] })
  expect(seen.losses).toBe(0)
})

it('a connection that breaks fails the requests under way and is reported once', async () => {
  const { control, seen } = await serverFixture((_request, socket) => socket.destroy())
  await expect(control.request('metrics', {})).rejects.toThrow('broke')
  await until(() => seen.losses === 1)
  await expect(control.request('metrics', {})).rejects.toThrow('closed')
  expect(seen.losses).toBe(1)
})

it('a line that is not JSON ends the connection', async () => {
  const { control, seen } = await serverFixture((_request, socket) => void socket.write('{"id":\n'))
  await expect(control.request('metrics', {})).rejects.toThrow('broke')
  await until(() => seen.losses === 1)
})
