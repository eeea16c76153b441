// Bad luck: the egress process, the daemon or the server of a request goes away.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { deadline } from '../deadline.ts'
import { type NetworkFixture, startNetwork } from './daemon.ts'
import { API } from './upstream.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let net: NetworkFixture
let id: string

beforeAll(async () => {
  net = await startNetwork('oci')
  await net.policy('api', { domains: [API] })
  id = (await net.daemon.create({ name: 'unlucky', policies: ['api'], memory_mb: 1024 })).id
})
afterAll(async () => await net?.[Symbol.asyncDispose]())

const get = () => net.run(id, `curl -sSf https://${API}/alive`)
const egressPid = (): number => JSON.parse(readFileSync(join(net.daemon.dataDir, 'egress.json'), 'utf8')).pid

test('a killed egress process fails the request under way, and the next one works', async () => {
  await get()
  const slowly = `curl -sS 'https://${API}/download?bytes=100000000000' --limit-rate 1M -o /tmp/under`
  const under = net.daemon.exec(id, slowly, { timeout_ms: 60_000 })
  await deadline('the download is under way', async () => {
    const { output } = await net.daemon.exec(id, 'stat -c %s /tmp/under', { shell: 'other' })
    return Number(output) > 0
  })
  process.kill(egressPid(), 'SIGKILL')
  expect((await under).exit_code).not.toBe(0)
  const works = async () => (await net.daemon.exec(id, `curl -sSf https://${API}/again`)).exit_code === 0
  await deadline('requests work again', works, 40_000)
})

test('a killed daemon cuts no request, and the next one finds the same egress process', async () => {
  await get()
  const pid = egressPid()
  await net.run(id, `curl -sS 'https://${API}/download?bytes=300000000' --limit-rate 100M -o /tmp/whole & echo started`)
  await net.daemon.restart('SIGKILL')
  // The file is there when the first bytes are.
  const size = async () => String((await net.daemon.exec(id, 'stat -c %s /tmp/whole')).output).trim()
  await deadline('the download is complete', async () => (await size()) === '300000000', 60_000)
  await get()
  expect(egressPid()).toBe(pid)
})

test('a server that cannot be reached is a 502 with the reason', async () => {
  await net.policy('api', { domains: [API, 'nowhere.upstream.example'], private: ['nowhere.upstream.example'] })
  const output = await net.run(
    id,
    `curl -sS -o /dev/stdout -w ' %{http_code}' http://${API}:80/ >/dev/null; curl -sS https://nowhere.upstream.example/ 2>&1 || true`,
  )
  expect(output).toMatch(/no such name|Could not resolve/)
})
