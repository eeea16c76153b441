import { expect, it } from 'vitest'
import { daemonFixture } from '../../testing/daemon.fixture.ts'
import type { LiveSession } from '../live.ts'
import { boundedCwd } from './bounded-cwd.ts'
import { execDone } from './exec.ts'

it('keeps a directory as it is, and of a longer one whole characters up to the length of a path', () => {
  for (const cwd of ['/workspace', `/${'x'.repeat(4095)}`, '/é']) expect(boundedCwd(cwd)).toBe(cwd)
  expect(boundedCwd(`/${'x'.repeat(7_000_000)}`)).toBe(`/${'x'.repeat(4095)}`)
  expect(boundedCwd('é'.repeat(5000))).toBe('é'.repeat(2048))
  expect(boundedCwd(`/${'é'.repeat(5000)}`)).toBe(`/${'é'.repeat(2047)}`)
  expect(boundedCwd(`/${'😀'.repeat(5000)}`)).toBe(`/${'😀'.repeat(1023)}`)
})

it('a forged directory of megabytes reaches neither the reply nor the row', async () => {
  const daemon = await daemonFixture()
  const { id } = await daemon.create()
  const live = daemon.context.live.get(id) as LiveSession
  const done = execDone(live, 'main', null, { exit_code: 0, cwd: `/${'x'.repeat(7_000_000)}`, duration_ms: 1 })
  expect([done.cwd.length, live.row.cwd.length]).toEqual([4096, 4096])
  expect((await daemon.call('GET', '/v1/sessions')).text.length).toBeLessThan(10_000)
})
