import { expect, it } from 'vitest'
import { daemonFixture, until } from '../testing/daemon.fixture.ts'
import { API, egressDaemonFixture, OTHER } from '../testing/egress-daemon.fixture.ts'

it('metrics have the requests per host, and are the same when they are read twice', async () => {
  const { daemon, send } = await egressDaemonFixture()
  await daemon.call('PUT', '/v1/policies/mine', { domains: [API] })
  const { id } = await daemon.create({ policies: ['mine'] })
  for (const host of [API, API, OTHER]) await send(id, `http://${host}/`)
  const lines = async () => (await daemon.call('GET', '/metrics')).text.split('\n')
  await until(async () => (await lines()).includes(`sandglass_egress_requests_total{host="${API}",decision="allowed"} 2`))
  expect(await lines()).toContain(`sandglass_egress_requests_total{host="refused",decision="blocked"} 1`)
  expect(await lines()).toContainEqual(expect.stringMatching(/^sandglass_egress_connections \d+$/))
  expect((await lines()).join('\n')).toMatch(
    new RegExp(`^sandglass_egress_bytes_total\\{host="${API}",direction="received"\\} [1-9]`, 'm'),
  )
})

it('metrics are there without an egress process', async () => {
  const daemon = await daemonFixture()
  const { status, text } = await daemon.call('GET', '/metrics')
  expect([status, text.includes('sandglass_egress_connections 0')]).toEqual([200, true])
})
