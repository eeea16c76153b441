// For tests: a daemon whose clock only moves when the test advances it.
import { expireDue } from '../sessions/lease/reaper.ts'
import { daemonFixture, type FixtureOptions, type TestDaemon } from './daemon.fixture.ts'

export type Clocked = { daemon: TestDaemon; pass(seconds: number): Promise<void> }

export async function clocked(options: FixtureOptions = {}): Promise<Clocked> {
  let now = Date.parse('2030-01-01T00:00:00Z')
  const daemon = await daemonFixture({ ...options, now: () => now })
  return {
    daemon,
    async pass(seconds) {
      now += seconds * 1000
      await expireDue(daemon.context)
    },
  }
}
