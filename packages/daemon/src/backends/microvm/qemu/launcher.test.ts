// Scripts in the place of the launcher.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { until } from '../../../testing/daemon.fixture.ts'
import type { VmJob } from '../../launcher/schema.ts'
import { SupervisorError, startSupervised } from './launcher.ts'

const folder = mkdtempSync(join(tmpdir(), 'sandglass-supervisor-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const job: VmJob = {
  argv: [],
  files: [],
  sockets: [],
  egress_socket: null,
  bridge: '',
  share_socket: '',
  log: '',
  log_bytes: 0,
  groups: [],
  rlimits: [],
}

it.each(['rubbish', '{"ok":true}'])(
  'the result %s is a failure of the supervisor, which is told to end its machine',
  async result => {
    const program = join(folder, 'launcher')
    const ended = join(folder, 'ended')
    rmSync(ended, { force: true })
    // A supervisor ends its machine when stdin ends without a release.
    writeFileSync(program, `#!/bin/sh\nread job\necho '${result}'\nread release || : > ${ended}\n`, { mode: 0o755 })
    const failure = await startSupervised(program, 'm', job).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(SupervisorError)
    expect(failure).toMatchObject({ message: 'invalid result of the launcher', cause: expect.any(Error) })
    await until(() => existsSync(ended))
  },
)

it('a launcher that cannot be started is a failure of the supervisor', async () => {
  const program = join(folder, 'missing')
  await expect(startSupervised(program, 'm', job)).rejects.toThrow(new SupervisorError(`cannot start ${program}`))
})
