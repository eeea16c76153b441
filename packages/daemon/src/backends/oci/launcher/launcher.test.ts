// Scripts in the place of the launcher.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { LaunchError, Launcher } from './launcher.ts'

const folder = mkdtempSync(join(tmpdir(), 'sandglass-launcher-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function failureOf(script: string): Promise<unknown> {
  const program = join(folder, 'launcher')
  writeFileSync(program, `#!/bin/sh\nread job\n${script}\n`, { mode: 0o755 })
  return await probeWith(new Launcher(program))
}

const probeWith = (launcher: Launcher) =>
  launcher.run({ probe: { folder } }, AbortSignal.timeout(10_000)).catch((error: unknown) => error)

it.each(['rubbish', '{"ok":"yes"}', '{"ok":true,"unknown":1}'])('the result %s is a failure of the launcher', async result => {
  const failure = await failureOf(`echo '${result}'`)
  expect(failure).toBeInstanceOf(LaunchError)
  expect(failure).toMatchObject({ message: 'invalid result of the launcher', wasKilled: false, cause: expect.any(Error) })
})

it('a launcher that writes without end is stopped', async () => {
  const failure = await failureOf('cat /dev/zero\nexit 7')
  expect(failure).toMatchObject({ name: 'LaunchError', message: expect.stringContaining('ended without a result (7)') })
})

it('a launcher that could not be started before its job is reported', async () => {
  const launcher = new Launcher(join(folder, 'missing'))
  launcher.prepareStarts(
    () => ({ groups: [], home: [], disk: null, ids: [], runtime: null }),
    () => undefined,
  )
  // The error of the waiting launcher arrives during other jobs.
  for (let job = 0; job < 3; job++) expect(await probeWith(launcher)).toBeInstanceOf(LaunchError)
  const start = launcher.start(() => ({ probe: { folder } }), AbortSignal.timeout(10_000))
  await expect(start).rejects.toThrow('the launcher ended without a result (not started)')
})
