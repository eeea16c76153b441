// One session through its whole life, over the API, on the real backend.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deadline } from './deadline.ts'
import { leftovers } from './leftovers.ts'
import { RealDaemon } from './real-daemon.ts'

const daemon = new RealDaemon()
beforeAll(async () => {
  await daemon.start()
})
afterAll(() => daemon.remove())

const status = async (id: string) => (await daemon.call('GET', `/v1/sessions/${id}`)).json().status
const post = (id: string, verb: string, body?: unknown) => daemon.call('POST', `/v1/sessions/${id}/${verb}`, body)

test('cd, export, functions and jobs are still there in the next exec', async () => {
  const { id } = await daemon.create()
  await daemon.exec(id, 'cd /tmp; export NAME=sand; greet() { echo "hello $NAME"; }; sleep 100 &')
  expect((await daemon.exec(id, 'greet; pwd; jobs -p | wc -l')).output.trim().split('\n')).toEqual(['hello sand', '/tmp', '1'])
  expect((await daemon.call('GET', `/v1/sessions/${id}`)).json().cwd).toBe('/tmp')
})

test('a working directory with any characters is reported intact', async () => {
  const { id } = await daemon.create()
  const odd = '/workspace/a:b \'c"d\n$e'
  expect((await daemon.exec(id, `mkdir -p $'/workspace/a:b \\'c"d\\n$e'; cd $'/workspace/a:b \\'c"d\\n$e'`)).cwd).toBe(odd)
})

test('pause freezes, resume goes on where it was', async () => {
  const { id } = await daemon.create()
  await daemon.exec(id, '(while :; do echo x >> /tmp/ticks; sleep 0.01; done) &')
  expect((await post(id, 'pause')).json().status).toBe('paused')
  expect((await post(id, 'exec', { cmd: 'true' })).status).toBe(409)
  expect((await post(id, 'resume')).json().status).toBe('running')
  expect((await daemon.exec(id, 'jobs -p | wc -l')).output.trim()).toBe('1')
})

test('stop keeps the files, start brings them back', async () => {
  const { id } = await daemon.create({ readonly_rootfs: false })
  await daemon.exec(id, 'echo kept > /workspace/f; echo gone > /tmp/g')
  expect((await post(id, 'stop')).json().status).toBe('stopped')
  await expect.poll(() => leftovers(daemon.dataDir).processes.filter(p => p.includes(id))).toEqual([])
  expect((await post(id, 'start')).json().status).toBe('running')
  expect((await daemon.exec(id, 'cat /workspace/f; ls /tmp')).output.trim()).toBe('kept')
})

// A ttl that a busy machine does not use up before the first command runs.
const TTL = 10

test('an idle session ends when its own ttl is over, and activity moves that forward by its own ttl', async () => {
  const { id } = await daemon.create({ ttl_seconds: TTL })
  await daemon.exec(id, 'true')
  const { expires_at, last_activity_at } = (await daemon.call('GET', `/v1/sessions/${id}`)).json()
  expect(Date.parse(expires_at) - Date.parse(last_activity_at)).toBe(TTL * 1000)
  await deadline('the session is over', async () => (await status(id)) === 'timeout', 40_000)
}, 60_000)

test('a running exec holds the lease', async () => {
  const { id } = await daemon.create({ ttl_seconds: TTL })
  expect((await daemon.exec(id, `sleep ${TTL + 2}; echo held`)).output.trim()).toBe('held')
}, 60_000)

test('timeout_sec is a hard end that activity does not move', async () => {
  const { id } = await daemon.create({ timeout_sec: 2 })
  await daemon.exec(id, 'sleep 30')
  await deadline('the session is over', async () => (await status(id)) === 'timeout')
  expect((await daemon.call('GET', `/v1/sessions/${id}`)).json()).toMatchObject({ status: 'timeout', reason: 'hard_timeout' })
})

test('DELETE ends a session and keeps its row; purge removes the row', async () => {
  const { id } = await daemon.create()
  expect((await daemon.call('DELETE', `/v1/sessions/${id}`)).json().status).toBe('terminated')
  expect((await daemon.call('DELETE', `/v1/sessions/${id}`)).json().status).toBe('terminated')
  await daemon.call('DELETE', `/v1/sessions/${id}?purge=true`)
  expect((await daemon.call('GET', `/v1/sessions/${id}`)).status).toBe(404)
})

test('the same Idempotency-Key creates one session', async () => {
  const header = { 'idempotency-key': 'once-and-only-once' }
  const [a, b] = await Promise.all([1, 2].map(() => daemon.call('POST', '/v1/sessions', { name: 'once' }, header)))
  expect(a?.json().id).toBe(b?.json().id)
  expect((await daemon.call('POST', '/v1/sessions', { name: 'twice' }, header)).json().error.code).toBe('IDEMPOTENCY_MISMATCH')
})
