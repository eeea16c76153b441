import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { type Duplex, duplexPair } from 'node:stream'
import { expect, it, onTestFinished } from 'vitest'
import { createLogger } from '../log.ts'
import { temporaryFolder, until } from '../testing/daemon.fixture.ts'
import { openRelay } from './relay.ts'

async function relayFixture() {
  const socketPath = join(await temporaryFolder(), 'control')
  const accepted: { socket: Socket; text: string }[] = []
  const server = createServer({ allowHalfOpen: true }, socket => {
    const connection = { socket, text: '' }
    accepted.push(connection)
    socket.on('data', data => {
      connection.text += data
    })
    socket.on('error', () => undefined) // the test cuts connections
  })
  const listen = () => new Promise<void>(resolve => server.listen(socketPath, resolve))
  await listen()
  onTestFinished(() => {
    for (const { socket } of accepted) socket.destroy()
    server.close()
  })
  const runners: Duplex[] = []
  const relay = openRelay({
    session: 'sess_x',
    socketPath,
    log: createLogger('silent'),
    async open() {
      const [side, runner] = duplexPair()
      runners.push(runner)
      return side
    },
  })
  onTestFinished(() => relay.close())
  return { accepted, runners, relay }
}

it('joins a stream of the runner to a connection that names the session first', async () => {
  const { accepted, runners } = await relayFixture()
  const runner = await until(() => runners[0])
  runner.write('from the runner')
  const connection = await until(() => accepted[0]?.text.includes('from the runner') && accepted[0])
  expect(connection.text).toBe('{"type":"relay","session":"sess_x"}\nfrom the runner')
  connection.socket.write('from the egress process')
  expect(await until(() => runner.read()?.toString())).toBe('from the egress process')
})

it('is opened again when either side breaks, and never after it was closed', async () => {
  const { accepted, runners, relay } = await relayFixture()
  await until(() => accepted[0]?.text)
  accepted[0]?.socket.destroy()
  await until(() => accepted[1]?.text)
  runners[1]?.end()
  await until(() => accepted[2]?.text)
  relay.close()
  await until(() => accepted[2]?.socket.destroyed || accepted[2]?.socket.readableEnded)
  expect(accepted).toHaveLength(3)
})
