import { spawnSync } from 'node:child_process'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { daemonFixture, temporaryFolder } from '../../testing/daemon.fixture.ts'
import { placeRecord } from './session-folders.ts'

const SOURCE = fileURLToPath(new URL('session-folders.ts', import.meta.url))

/** Kills itself when its record is about to be written. */
const KILLED = `
  const { placeRecord } = await import(process.argv[1])
  await placeRecord(process.argv[2], { toJSON: () => process.kill(process.pid, 'SIGKILL') })
`

it('the next daemon removes the folder of a session that a killed daemon was creating', async () => {
  const dataDir = await temporaryFolder()
  const sessions = join(dataDir, 'sessions')
  await mkdir(sessions)
  const killed = join(sessions, 'sess_0123456789abcdef')
  expect(spawnSync(process.execPath, ['--input-type=module', '-e', KILLED, SOURCE, killed]).signal).toBe('SIGKILL')
  const [left] = await readdir(sessions)
  expect(left).toMatch(/^sess_0123456789abcdef\..*\.new$/)
  // The state after a kill that comes a moment later: the record with the token exists.
  await writeFile(join(sessions, left ?? '', 'config.json'), JSON.stringify({ backend: 'microvm', token: 'secret' }))
  await placeRecord(join(sessions, 'sess_whole00000000000'), { backend: 'microvm' })
  await daemonFixture({ dataDir })
  expect(await readdir(sessions)).toEqual(['sess_whole00000000000'])
})
