import { link, lstat, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { temporaryFolder } from '../testing/daemon.fixture.ts'
import { acquireLock } from './lock.ts'

/** A folder that others write to, with a file in it that they would like the daemon to change. */
async function sharedFolder(): Promise<{ path: string; victim: string }> {
  const folder = await temporaryFolder()
  const victim = join(folder, 'victim')
  await writeFile(victim, 'precious')
  return { path: join(folder, 'x.sock.lock'), victim }
}

describe('a lock in a folder that others write to', () => {
  it('is accessible to its owner alone', async () => {
    const { path } = await sharedFolder()
    const lock = acquireLock(path, 'x')
    onTestFinished(() => lock.release())
    for (const file of [path, `${path}.pid`]) expect((await stat(file)).mode & 0o777).toBe(0o600)
  })

  it('does not write through a link that was planted for its pid', async () => {
    const { path, victim } = await sharedFolder()
    await symlink(victim, `${path}.pid`)
    const lock = acquireLock(path, 'x')
    onTestFinished(() => lock.release())
    expect(await readFile(victim, 'utf8')).toBe('precious')
    expect((await lstat(`${path}.pid`)).isFile()).toBe(true)
  })

  it.each([['a symbolic link', symlink] as const, ['a second name of a file', link] as const])(
    'is not taken through %s',
    async (_what, plant) => {
      const { path, victim } = await sharedFolder()
      await writeFile(victim, '')
      await plant(victim, path)
      expect(() => acquireLock(path, 'x')).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID' }))
    },
  )

  it('shows only a pid of the file’s content', async () => {
    const { path } = await sharedFolder()
    const lock = acquireLock(path, 'x')
    onTestFinished(() => lock.release())
    await writeFile(`${path}.pid`, 'precious')
    expect(() => acquireLock(path, 'x')).toThrow('(pid unknown)')
  })
})
