import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { daemonFixture, plainChild, temporaryFolder } from '../../testing/daemon.fixture.ts'

it('the boot log is the one that the backend has, without the carriage returns of a console', async () => {
  const machines = await temporaryFolder()
  const daemon = await daemonFixture({ backends: () => [plainChild(machines)] })
  const { id } = await daemon.create()
  await writeFile(join(machines, id, 'boot.log'), 'one line\r\nanother\r\n')
  const bootLog = async () => (await daemon.fetch(`/v1/sessions/${id}/logs`)).text()
  expect(await bootLog()).toBe('one line\nanother\n')
  await daemon.call('DELETE', `/v1/sessions/${id}`)
  expect(await bootLog()).toBe('')
})
