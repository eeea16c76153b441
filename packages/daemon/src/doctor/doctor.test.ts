import { expect, it } from 'vitest'
import type { Backend, Probe } from '../backends/backend.ts'
import { loadConfig } from '../config/load.ts'
import { plainChild, temporaryFolder } from '../testing/daemon.fixture.ts'
import { examine } from './doctor.ts'

async function limitsOf(changes: Partial<Probe>) {
  const home = await temporaryFolder()
  const backend: Backend = plainChild(home)
  const probe = await backend.probe()
  backend.probe = async () => ({ ...probe, ...changes })
  const loaded = loadConfig({ flags: {}, env: {}, home, userId: process.getuid?.() ?? 0 })
  const { checks } = await examine({ loaded, backends: [backend], runner: { path: '/bin/true', fix: '' } })
  return checks.find(({ name }) => name.endsWith(': limits'))
}

it('a limit that cannot be enforced is told with its reason, and with what mends that', async () => {
  const [unenforceableWhy, unenforceableFix] = ['a volume has no quota', 'use another backend']
  expect(await limitsOf({ unenforceable: ['disk'], unenforceableWhy, unenforceableFix })).toMatchObject({
    status: 'failed',
    detail: 'disk cannot be enforced here, so sessions are refused: a volume has no quota',
    fix: expect.stringMatching(/^use another backend; or accept it: .*allow_unenforced: \[disk\]/),
  })
})
