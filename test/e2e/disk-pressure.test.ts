// Sessions whose disks together are larger than the host's. SECURITY: one that writes all it may must not cost another its files, nor the host its
// last free block.
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { closeSync, mkdtempSync, openSync, rmSync, statfsSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { deadline } from './deadline.ts'
import { type Json, RealDaemon } from './real-daemon.ts'

const MiB = 1024 * 1024
const FLOOR_MB = 128
const PAUSE_MB = 2 * FLOOR_MB
const WRITTEN_MB = 250

/** Only root can mount the small disk that this is about. */
const isRoot = process.getuid?.() === 0
const folder = mkdtempSync(join(tmpdir(), 'sg-disk-'))
const daemon = new RealDaemon(['--overcommit-disk-floor-mb', String(FLOOR_MB)])
const filler = join(daemon.dataDir, 'filler')

beforeAll(async () => {
  if (!isRoot) return
  const image = join(folder, 'disk.ext4')
  closeSync(openSync(image, 'w'))
  truncateSync(image, 1500 * MiB)
  execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', image])
  execFileSync('mount', ['-o', 'loop', image, daemon.dataDir])
  await daemon.start()
})
afterAll(async () => {
  if (isRoot) {
    const { items } = (await daemon.call('GET', '/v1/sessions')).json()
    for (const { id } of items) await daemon.call('DELETE', `/v1/sessions/${id}`)
    await daemon.stop()
    // A launcher that waited for a start lets go of the folder a moment after the daemon.
    await deadline('the disk is let go', () => spawnSync('umount', [daemon.dataDir]).status === 0)
  }
  rmSync(daemon.dataDir, { recursive: true, force: true })
  rmSync(folder, { recursive: true, force: true })
})

const freeBytes = () => statfsSync(daemon.dataDir).bavail * statfsSync(daemon.dataDir).bsize
const get = async (id: string) => (await daemon.call('GET', `/v1/sessions/${id}`)).json()
/** As another program of the host would. */
const leaveFree = (mb: number) => {
  execFileSync('sync', ['--file-system', daemon.dataDir])
  rmSync(filler, { force: true })
  execFileSync('fallocate', ['-l', `${Math.floor(freeBytes() / MiB) - mb}M`, filler])
}

/** Writes a file in the background; its exit status is in /tmp/status at the end. */
async function startWriter(id: string): Promise<void> {
  const command = `head -c ${WRITTEN_MB}M /dev/zero | tr '\\0' a > /workspace/big; echo $? > /tmp/status`
  await daemon.call('POST', `/v1/sessions/${id}/processes`, { argv: ['bash', '-o', 'pipefail', '-c', command] })
}

describe.runIf(isRoot)('with more promised to sessions than the disk has', () => {
  let sessions: Json[] = []

  test('sessions are admitted up to overcommit.disk, and no further', async () => {
    for (let i = 0; i < 5; i++) sessions.push(await daemon.create())
    expect(freeBytes()).toBeLessThan(5 * 1024 * MiB)
    const refused = await daemon.call('POST', '/v1/sessions', { disk_mb: 51_200 })
    expect(refused.json().error).toMatchObject({ code: 'HOST_FULL', message: expect.stringContaining('overcommit.disk 8') })
  })

  test('those that write are paused before the disk is full, others go on, and a resume continues where it was', {
    timeout: 120_000,
  }, async () => {
    leaveFree(PAUSE_MB + 200)
    const [first, second, quiet] = sessions
    let least = freeBytes()
    const looks = setInterval(() => (least = Math.min(least, freeBytes())), 5)
    onTestFinished(() => clearInterval(looks))
    await Promise.all([startWriter(first.id), startWriter(second.id)])
    await deadline('both are paused', async () => {
      const states = await Promise.all([get(first.id), get(second.id)])
      return states.every(({ status }) => status === 'paused')
    })
    expect(await get(first.id)).toMatchObject({
      reason: 'disk_pressure',
      error_message: expect.stringMatching(/MiB of disk are free.*`sandglass resume /),
    })
    execFileSync('sync', ['--file-system', daemon.dataDir])
    expect(freeBytes()).toBeGreaterThan(FLOOR_MB * MiB)
    expect(await get(quiet.id)).toMatchObject({ status: 'running' })
    expect((await daemon.exec(quiet.id, 'echo small > /workspace/file && cat /workspace/file')).output).toBe('small\n')
    leaveFree(PAUSE_MB - 10)
    for (const verb of ['resume', 'start']) {
      const id = verb === 'resume' ? first.id : (await daemon.create({ start: false })).id
      expect((await daemon.call('POST', `/v1/sessions/${id}/${verb}`)).json().error.code, verb).toBe('HOST_FULL')
    }

    rmSync(filler)
    const whole = createHash('sha256')
      .update(Buffer.alloc(WRITTEN_MB * MiB, 'a'))
      .digest('hex')
    for (const { id } of [first, second]) {
      expect((await daemon.call('POST', `/v1/sessions/${id}/resume`)).json()).toMatchObject({
        status: 'running',
        error_message: null,
      })
      await deadline('it ends', async () => (await daemon.exec(id, 'cat /tmp/status')).output === '0\n', 60_000)
      expect((await daemon.exec(id, 'sha256sum < /workspace/big')).output).toContain(whole)
    }
    expect(least).toBeGreaterThan(FLOOR_MB * MiB)
    for (const { id } of [first, second]) {
      await daemon.call('POST', `/v1/sessions/${id}/stop`)
      execFileSync('e2fsck', ['-fn', join(daemon.dataDir, 'sessions', id, 'disk.ext4')])
      await daemon.call('DELETE', `/v1/sessions/${id}`)
    }
    sessions = sessions.slice(2)
  })

  test('every session is paused when something else on the host takes what is kept free', async () => {
    leaveFree(FLOOR_MB - 10)
    for (const { id } of sessions) await deadline('it is paused', async () => (await get(id)).status === 'paused')
    rmSync(filler)
    for (const { id } of sessions) expect((await daemon.call('POST', `/v1/sessions/${id}/resume`)).status).toBe(200)
  })
})
