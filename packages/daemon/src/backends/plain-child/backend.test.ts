import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { openLink } from '@sandglass/runner-link/link'
import { expect, it } from 'vitest'
import type { Machine } from '../backend.ts'
import { answer, egressClient } from '../conformance/egress-client.fixture.ts'
import { boxOf } from '../conformance/subject.ts'
import { PlainChildBackend } from './backend.ts'
import { plainChildFixture, RUNNER_PATH, specFixture } from './plain-child.fixture.ts'
import { isAlive, processId } from './process-tree.ts'

const ID = 'sess_abcdefghijklmnop'
const EGRESS = { egress: true }
const PROXY_CLIENT = `python3 -c 'import socket; s = socket.create_connection(("127.0.0.53", 3128)); s.sendall(b"CONNECT"); s.shutdown(1); print(s.makefile().read())'`
const soon = () => AbortSignal.timeout(10_000)
const linkTo = (machine: Machine) => openLink(machine)

it('the constructor throws outside of tests', () => {
  // @ts-expect-error: what a caller outside tests would write
  expect(() => new PlainChildBackend({ folder: '/tmp', runnerPath: RUNNER_PATH })).toThrow('for tests alone')
})

it('commands run in the folder of the machine with the given environment', async () => {
  const { backend, folder } = await plainChildFixture()
  const machine = await backend.start(specFixture(ID, { env: { GREETING: 'hello' } }), soon())
  const link = linkTo(machine)
  const { message, body } = await link.request('exec', { cmd: 'echo $GREETING; pwd' })
  expect(message.exit_code).toBe(0)
  expect(String(body).replaceAll('\r', '')).toBe(`hello\n${join(folder, ID, 'workspace')}\n`)
  link.close()
})

it('another backend object recovers a machine with its shells', async () => {
  const { backend, folder } = await plainChildFixture()
  const first = linkTo(await backend.start(specFixture(ID), soon()))
  await first.request('exec', { cmd: 'kept=yes' })
  const { bootId } = first
  first.close()
  const [found] = await new PlainChildBackend({ forTests: true, folder, runnerPath: RUNNER_PATH }).recover()
  if (!found) throw new Error('not found')
  const link = linkTo(found)
  expect(String((await link.request('exec', { cmd: 'echo $kept' })).body).trim()).toBe('yes')
  expect(link.bootId).toBe(bootId)
  link.close()
})

it('stop ends every process and keeps the files for the next start', async () => {
  const { backend, folder } = await plainChildFixture()
  const machine = await backend.start(specFixture(ID), soon())
  const link = linkTo(machine)
  await link.request('write', { path: 'file' }, { body: Buffer.from('kept') })
  await link.request('exec', { cmd: '(setsid sleep 1000 &) ; sleep 1000 & echo $! > pid' })
  const sleeper = await processId(Number(await readFile(join(folder, ID, 'workspace', 'pid'), 'utf8')))
  if (!sleeper) throw new Error('the background process does not run')
  link.close()
  await machine.stop()
  await machine.stop()
  expect(await machine.isRunning()).toBe(false)
  expect(await isAlive(sleeper)).toBe(false)
  expect(await backend.recover()).toEqual([])
  expect(await backend.sessionIds()).toEqual([ID])
  const again = linkTo(await backend.start(specFixture(ID), soon()))
  expect(String((await again.request('read', { path: 'file' })).body)).toBe('kept')
  again.close()
})

it('pause stops every process and resume continues them', async () => {
  const { backend } = await plainChildFixture()
  const machine = await backend.start(specFixture(ID), soon())
  const link = linkTo(machine)
  await link.request('exec', { cmd: 'while :; do echo x >> ticks; sleep 0.01; done &' })
  await machine.pause?.()
  const stats = await machine.stats()
  expect(stats.pids).toBeGreaterThanOrEqual(2)
  let isAnswered = false
  const late = link.request('ping').then(() => {
    isAnswered = true
  })
  await machine.stats()
  expect(isAnswered).toBe(false)
  await machine.resume?.()
  await late
  link.close()
})

it('discard and destroy leave nothing behind, and twice is the same as once', async () => {
  const { backend } = await plainChildFixture()
  const machine = await backend.start(specFixture(ID), soon())
  await backend.discard(ID)
  await backend.discard(ID)
  await machine.destroy()
  expect(await backend.sessionIds()).toEqual([])
  expect(await machine.isRunning()).toBe(false)
})

it('a start that is aborted or fails leaves nothing behind', async () => {
  const { backend, folder } = await plainChildFixture()
  await expect(backend.start(specFixture(ID), AbortSignal.abort())).rejects.toThrow()
  const broken = new PlainChildBackend({ forTests: true, folder, runnerPath: '/bin/false' })
  await expect(broken.start(specFixture(ID), soon())).rejects.toMatchObject({ code: 'START_FAILED' })
  expect(await backend.sessionIds()).toEqual([])
})

it('machines with egress have an endpoint that a recovered machine has too, and two of them run at once', async () => {
  const { backend, folder } = await plainChildFixture()
  expect((await backend.start(specFixture(ID), soon())).egress).toBeNull()
  const started = [
    await backend.start(specFixture('sess_one', EGRESS), soon()),
    await backend.start(specFixture('sess_two', EGRESS), soon()),
  ]
  const found = await new PlainChildBackend({ forTests: true, folder, runnerPath: RUNNER_PATH }).recover()
  for (const { id, egress } of started) {
    const machine = found.find(other => other.id === id)
    if (machine === undefined) throw new Error('not found')
    expect(machine.egress).toEqual(egress)
    const box = boxOf(machine, specFixture(id), {})
    const client = await egressClient(box)
    const printed = box.run(PROXY_CLIENT)
    const { connection, via } = await client.next('connection')
    expect(via).toBe('http_proxy')
    expect(await answer(await client.take(connection), `for ${id}`)).toBe('CONNECT')
    expect((await printed).output).toBe(`for ${id}`)
    client.close()
    box.link.close()
  }
})
