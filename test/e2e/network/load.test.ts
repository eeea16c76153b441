// Much at once, and large bodies, on oci: the limits of one session do not become the problem of another.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { deadline } from '../deadline.ts'
import { type NetworkFixture, startNetwork } from './daemon.ts'
import { API } from './upstream.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 })

const GIB = 1024 ** 3
let net: NetworkFixture
let id: string
let other: string

beforeAll(async () => {
  net = await startNetwork('oci')
  await net.policy('api', { domains: [API] })
  const size = { memory_mb: 2048, cpu_cores: 1, pids_limit: 2048 }
  id = (await net.daemon.create({ name: 'busy', policies: ['api'], ...size })).id
  other = (await net.daemon.create({ name: 'other', policies: ['api'], ...size })).id
})
afterAll(async () => await net?.[Symbol.asyncDispose]())

/** Resident memory of the egress process in MiB. */
function residentMib(): number {
  const { pid } = JSON.parse(readFileSync(join(net.daemon.dataDir, 'egress.json'), 'utf8'))
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}

test('1 GiB goes up and comes down, and the egress process stays small', async () => {
  expect(await net.run(id, `curl -sS 'https://${API}/download?bytes=${GIB}' | wc -c`)).toContain(String(GIB))
  expect(await net.run(id, `head -c ${GIB} /dev/zero | curl -sS -T - https://${API}/upload`)).toContain(`${GIB} `)
  expect(residentMib()).toBeLessThan(400)
})

/** Ten processes, because one may not have so many open files. */
const FLOOD = `/usr/bin/python3 - <<'END'
import os, socket
address = socket.getaddrinfo('${API}', 443, socket.AF_INET, socket.SOCK_STREAM)[0][4]
def flood():
    kept = []
    for i in range(1000):
        s = socket.socket()
        s.settimeout(20)
        try:
            s.connect(address)
            s.send(b'\\x16')
        except OSError:
            pass
        kept.append(s)
    return len(kept)
def child():
    os._exit(0 if flood() == 1000 else 1)
for _ in range(10):
    if os.fork() == 0: child()
print('status', [os.wait()[1] for _ in range(10)])
END`

test('10,000 connections of one session leave the others, its own shells and its later requests alone', async () => {
  const flood = net.daemon.exec(id, FLOOD, { timeout_ms: 110_000, shell: 'flood' })
  for (let i = 0; i < 10; i++) {
    expect(await net.run(other, `curl -sSf -m 30 https://${API}/calm`)).toContain('/calm')
    expect(await net.run(id, 'echo still here')).toContain('still here')
  }
  expect((await flood).output).toContain(`status [${Array(10).fill(0).join(', ')}]`)
  // The connections of the flood end one after the other.
  const works = async () => (await net.daemon.exec(id, `curl -sSf https://${API}/later`)).exit_code === 0
  await deadline('requests work', works, 60_000)
})

test('a session that sends requests without a pause does not keep another from its own', async () => {
  const flood = net.daemon.exec(
    id,
    `timeout 8 sh -c 'while :; do curl -sS -o /dev/null https://${API}/a https://${API}/b; done'`,
    {
      shell: 'flood',
      timeout_ms: 60_000,
    },
  )
  for (let i = 0; i < 20; i++) expect(await net.run(other, `curl -sSf -m 30 https://${API}/calm`)).toContain('/calm')
  await flood
})
