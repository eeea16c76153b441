// A host disk with room for one session. SECURITY: what one sandbox writes must not take the daemon or the others down.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deadline } from './deadline.ts'
import { RealDaemon } from './real-daemon.ts'

/** Only root can mount the small disk that this is about. */
const isRoot = process.getuid?.() === 0
// Nothing is promised twice here: what happens when it is, disk-pressure.test.ts shows.
const daemon = new RealDaemon(['--overcommit-disk', '1'])
const FILLER = join(daemon.dataDir, 'filler')

beforeAll(async () => {
  if (!isRoot) return
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1400m,mode=700', 'tmpfs', daemon.dataDir])
  await daemon.start()
})
afterAll(async () => {
  if (!isRoot) return
  rmSync(FILLER, { force: true })
  const { items } = (await daemon.call('GET', '/v1/sessions')).json()
  for (const { id } of items) await daemon.call('DELETE', `/v1/sessions/${id}`)
  await daemon.stop()
  // A launcher that waited for a start lets go of the folder a moment after the daemon.
  await deadline('the disk is let go', () => spawnSync('umount', [daemon.dataDir]).status === 0)
  rmSync(daemon.dataDir, { recursive: true, force: true })
})

describe.runIf(isRoot)('on a small disk', () => {
  test('a session whose disk does not fit on the host is refused and not stored', async () => {
    const first = await daemon.create()
    const refused = await daemon.call('POST', '/v1/sessions', {})
    expect([refused.status, refused.json().error]).toMatchObject([
      503,
      { code: 'HOST_FULL', message: expect.stringContaining('MiB') },
    ])
    const held = await daemon.create({ start: false })
    expect((await daemon.call('POST', `/v1/sessions/${held.id}/start`)).json().error.code).toBe('HOST_FULL')
    expect((await daemon.call('GET', `/v1/sessions/${held.id}`)).json().status).toBe('stopped')
    expect((await daemon.call('GET', '/v1/sessions?all=true')).json().total).toBe(2)
    await daemon.call('POST', `/v1/sessions/${first.id}/stop`)
    expect((await daemon.call('POST', `/v1/sessions/${first.id}/start`)).status).toBe(200)
    for (const { id } of [first, held]) await daemon.call('DELETE', `/v1/sessions/${id}`)
  })

  test('one of two concurrent creates is refused if there is space for one session only', async () => {
    const replies = await Promise.all([1, 2].map(() => daemon.call('POST', '/v1/sessions', {})))
    expect(replies.map(r => r.status).toSorted()).toEqual([201, 503])
    for (const reply of replies) if (reply.status === 201) await daemon.call('DELETE', `/v1/sessions/${reply.json().id}`)
  })

  test('the daemon survives a full disk: create fails with HOST_FULL, and stop and rm work', async () => {
    const [{ id }, held] = [await daemon.create(), await daemon.create({ start: false })]
    const { pid } = daemon
    try {
      execFileSync('dd', ['if=/dev/zero', `of=${FILLER}`, 'bs=1M'], { stdio: 'ignore' })
    } catch {
      expect(existsSync(FILLER), 'dd ends when nothing more fits').toBe(true)
    }
    const refused = await daemon.call('POST', '/v1/sessions', {})
    expect([refused.status, refused.json().error.code]).toEqual([503, 'HOST_FULL'])
    expect((await daemon.call('POST', `/v1/sessions/${id}/stop`)).json()).toMatchObject({ status: 'stopped' })
    expect((await daemon.call('DELETE', `/v1/sessions/${id}`)).json()).toMatchObject({ status: 'terminated' })
    expect((await daemon.call('DELETE', `/v1/sessions/${held.id}?purge=true`)).status).toBe(200)
    expect([daemon.pid, readFileSync(`/proc/${pid}/comm`, 'utf8')]).toEqual([pid, expect.any(String)])
  })

  test('a daemon that was killed while the disk was full starts again', async () => {
    expect(existsSync(FILLER)).toBe(true)
    await daemon.restart('SIGKILL')
    rmSync(FILLER)
    await daemon.restart('SIGTERM')
    await deadline('the reserved space is back', () => existsSync(join(daemon.dataDir, 'reserved-space')))
    expect((await daemon.create()).status).toBe('running')
  })
})
