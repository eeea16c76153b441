import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { daemonFixture, temporaryFolder } from '../testing/daemon.fixture.ts'
import { endDaemon, spawnDaemon } from '../testing/daemon-process.fixture.ts'
import { openDataDir } from './open.ts'

describe('the data folder', () => {
  it('is accessible to its owner alone, as is its key', async () => {
    const path = join(await temporaryFolder(), 'new')
    const { apiKey, lock } = openDataDir(path)
    expect(apiKey()).toMatch(/^sk-sandglass-.{40,}/)
    lock.release()
    expect((await stat(path)).mode & 0o077).toBe(0)
    expect((await stat(join(path, 'api-key'))).mode & 0o777).toBe(0o600)
    const again = openDataDir(path)
    expect(again.apiKey()).toBe(apiKey())
    again.lock.release()
  })

  it('with a key that others can read is refused', async () => {
    const path = await temporaryFolder()
    const { apiKey, lock } = openDataDir(path)
    apiKey()
    lock.release()
    await chmod(join(path, 'api-key'), 0o644)
    const again = openDataDir(path)
    expect(() => again.apiKey()).toThrow(expect.objectContaining({ code: 'CONFIG_INSECURE' }))
    again.lock.release()
  })

  it('that cannot be written is refused with the reason', async () => {
    const folder = await temporaryFolder()
    await writeFile(join(folder, 'file'), '')
    await expect(daemonFixture({ dataDir: join(folder, 'file', 'data') })).rejects.toMatchObject({ code: 'DATA_DIR_UNWRITABLE' })
    await expect(daemonFixture({ dataDir: '/proc/sandglass' })).rejects.toMatchObject({ code: 'DATA_DIR_UNWRITABLE' })
  })

  it('is used by one daemon at a time, and free at once when that one is killed', async () => {
    const folder = await temporaryFolder()
    const [dataDir, machines] = [join(folder, 'data'), join(folder, 'm')]
    await mkdir(machines)
    const first = await spawnDaemon(dataDir, machines)
    await expect(spawnDaemon(dataDir, machines)).rejects.toThrow(`another daemon (pid ${first.child.pid})`)
    expect((await first.call('GET', '/v1/sessions')).status).toBe(200)
    await endDaemon(first, 'SIGKILL')
    const second = await spawnDaemon(dataDir, machines)
    expect(await readFile(join(dataDir, 'lock.pid'), 'utf8')).toBe(String(second.child.pid))
    expect(await endDaemon(second, 'SIGTERM')).toBe(0)
  })

  it('opened by many daemons at once has one winner', async () => {
    const folder = await temporaryFolder()
    const [dataDir, machines] = [join(folder, 'data'), join(folder, 'm')]
    await mkdir(machines)
    const results = await Promise.allSettled([1, 2, 3, 4].map(() => spawnDaemon(dataDir, machines)))
    const winners = results.filter(r => r.status === 'fulfilled')
    expect(winners.length).toBe(1)
    for (const winner of winners) await endDaemon(winner.value, 'SIGTERM')
  })
})
