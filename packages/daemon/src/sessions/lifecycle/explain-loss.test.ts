import { CHANNELS } from '@sandglass/contract'
import { expect, it, onTestFinished } from 'vitest'
import { WebSocket } from 'ws'
import type { Machine } from '../../backends/backend.ts'
import { daemonFixture, KEY, plainChild, type TestDaemon, until } from '../../testing/daemon.fixture.ts'

const WHY = 'the sandbox ran out of memory'
const OUT_OF_MEMORY = {
  code: 'RUNNER_LOST',
  message: `the sandbox of session demo ended while the command ran: ${WHY}; memory_mb is 512`,
  hint: '`sandglass start demo` starts it again; `sandglass inspect demo` shows how it ended',
  detail: { name: 'demo', state: 'failed', reason: 'out_of_memory' },
}

/** Its machines say that they ran out of memory, whatever they died of. */
async function daemonWithDemo(): Promise<TestDaemon> {
  const daemon = await daemonFixture({
    backends: folder => {
      const backend = plainChild(folder)
      const start = backend.start.bind(backend)
      backend.start = async (...args): Promise<Machine> =>
        Object.assign(await start(...args), { exitReason: async () => ({ limit: 'memory_mb', text: WHY }) })
      return [backend]
    },
  })
  await daemon.create({ name: 'demo' })
  return daemon
}

const isHeld = (daemon: TestDaemon) => until(() => daemon.context.live.get('demo')?.holds === 1)

async function killSandbox(daemon: TestDaemon): Promise<void> {
  await isHeld(daemon)
  process.kill(Number(daemon.context.live.get('demo')?.machine.containerId.replace('plain-', '')), 'SIGKILL')
}

/** What a socket to `sleep` is told last. */
async function attached(daemon: TestDaemon): Promise<{ told: Promise<unknown> }> {
  const { body } = await daemon.call('POST', '/v1/sessions/demo/processes', { argv: ['sleep', '30'] })
  const url = `${daemon.url.replace('http', 'ws')}/v1/sessions/demo/processes/${(body as { pid: number }).pid}/attach`
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${KEY}` } })
  onTestFinished(() => socket.terminate())
  const told = new Promise(resolve => {
    let last: unknown = 'nothing'
    socket.on('message', (data: Buffer) => {
      if (data[0] === CHANNELS.error) last = JSON.parse(data.subarray(1).toString())
    })
    socket.once('close', (code, reason) => resolve([code, reason.toString(), last]))
  })
  await new Promise(resolve => socket.once('open', resolve))
  return { told }
}

it('a command whose sandbox dies fails with the session’s name and the reason', async () => {
  const daemon = await daemonWithDemo()
  const reply = daemon.call('POST', '/v1/sessions/demo/exec', { cmd: 'sleep 30' })
  await killSandbox(daemon)
  expect(await reply).toMatchObject({ status: 502, body: { error: OUT_OF_MEMORY } })
  const shown = await daemon.call('GET', '/v1/sessions/demo')
  expect(shown.body).toMatchObject({ reason: 'out_of_memory', limit_hit: { limit: 'memory_mb', value: 512 } })
})

it.each([
  ['exec/stream', { method: 'POST', body: '{"cmd":"sleep 30"}', headers: { 'content-type': 'application/json' } }],
  ['processes/PID/output', {}],
])('a stream of %s ends with the reason when the sandbox dies', async (route, init) => {
  const daemon = await daemonWithDemo()
  const { body } = await daemon.call('POST', '/v1/sessions/demo/processes', { argv: ['sleep', '30'] })
  const path = route.replace('PID', String((body as { pid: number }).pid))
  const response = await daemon.fetch(`/v1/sessions/demo/${path}`, init)
  await killSandbox(daemon)
  const [, data = '{}'] = /event: error\ndata: (.*)/.exec(await response.text()) ?? []
  expect(JSON.parse(data)).toMatchObject(OUT_OF_MEMORY)
})

it('an attached terminal gets the reason when the sandbox dies', async () => {
  const daemon = await daemonWithDemo()
  const { told } = await attached(daemon)
  await killSandbox(daemon)
  expect(await told).toMatchObject([1011, 'RUNNER_LOST', OUT_OF_MEMORY])
})

it('an attached terminal gets the reason when the session is ended', async () => {
  const daemon = await daemonWithDemo()
  const { told } = await attached(daemon)
  await isHeld(daemon)
  await daemon.call('DELETE', '/v1/sessions/demo')
  expect(await told).toMatchObject([
    1011,
    'RUNNER_LOST',
    {
      message: 'the sandbox of session demo ended while the command ran: it is terminated (requested)',
      hint: 'create a new one with `sandglass new`',
    },
  ])
})

it('a sandbox that still runs is reported as lost after a bounded wait', async () => {
  const daemon = await daemonWithDemo()
  const live = daemon.context.live.get('demo')
  if (live) Object.assign(live.machine, { isRunning: async () => true })
  const reply = daemon.call('POST', '/v1/sessions/demo/exec', { cmd: 'sleep 30' })
  await killSandbox(daemon)
  expect(await reply).toMatchObject({
    body: {
      error: {
        message: 'lost the connection to the sandbox of session demo while the command ran',
        hint: '`sandglass inspect demo` shows whether it is still running; the command may have taken effect',
      },
    },
  })
})
