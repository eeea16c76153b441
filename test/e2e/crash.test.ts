// kill -9 of the daemon at arbitrary moments: the next daemon finishes or fails what was interrupted.
import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { deadline } from './deadline.ts'
import { isGone, leftovers } from './leftovers.ts'
import { type Json, RealDaemon } from './real-daemon.ts'

vi.setConfig({ testTimeout: 120_000 })
const daemon = new RealDaemon()
const ROUNDS = 8
const NOTHING = { processes: [], mounts: [], loops: [], cgroups: [], folders: [] }

beforeAll(async () => {
  await daemon.start()
})
afterAll(() => daemon.remove())

/** Starts `work`, kills the daemon `ms` after it `began`, and starts it again. A call that fails has lost its daemon. */
async function killDuring(
  work: () => Promise<unknown>,
  ms: number,
  began: () => Promise<void> = async () => undefined,
): Promise<void> {
  const lost = work().catch(() => undefined)
  await began()
  await pause(ms)
  await daemon.restart('SIGKILL')
  await lost
}

const sessions = async (): Promise<Json[]> => (await daemon.call('GET', '/v1/sessions?limit=200')).json().items

async function endAll(): Promise<void> {
  for (const session of await sessions()) await daemon.call('DELETE', `/v1/sessions/${session.id}`)
  // The next daemon removes what the last one left while it already answers.
  await expect.poll(() => leftovers(daemon.dataDir), { timeout: 20_000 }).toEqual(NOTHING)
}

test('during create: every session either runs and answers, or is failed with a reason', async () => {
  let interrupted = 0
  for (let round = 0; round < ROUNDS; round++) {
    const answered: string[] = []
    const create = async () => void answered.push((await daemon.create()).id)
    const isStored = () => deadline('a session is stored', async () => (await sessions()).length > 0)
    // Every other round kills the daemon at a moment when a create is known to be under way or over.
    const began = round % 2 === 0 ? isStored : async () => undefined
    await killDuring(() => Promise.allSettled([create(), create()]), round * 6, began)
    for (const session of await sessions()) {
      if (!answered.includes(session.id)) interrupted++
      if (session.status === 'running') expect((await daemon.exec(session.id, 'echo alive')).output.trim()).toBe('alive')
      else
        expect(session).toMatchObject({ status: 'failed', reason: expect.stringMatching(/interrupted_create|machine_missing/) })
    }
    await endAll()
  }
  expect(interrupted).toBeGreaterThan(0)
})

test('during exec: the command goes on and the shell keeps its state', async () => {
  const { id } = await daemon.create()
  const mainIsBusy = async () => (await daemon.call('GET', `/v1/sessions/${id}/shells`)).json().items.some((s: Json) => s.busy)
  for (let round = 0; round < ROUNDS; round++) {
    let isOver = false
    const work = () =>
      daemon.exec(id, `sleep 0.1; export ROUND=${round}; cd /tmp`).finally(() => {
        isOver = true
      })
    await killDuring(work, round * 15, () => deadline('the command runs', async () => isOver || (await mainIsBusy())))
    expect((await daemon.exec(id, 'echo $ROUND $PWD')).output.trim()).toBe(`${round} /tmp`)
  }
  await endAll()
})

test('during write: the file is whole, old or new', async () => {
  const { id } = await daemon.create()
  const put = (letter: string) => daemon.call('PUT', `/v1/sessions/${id}/files?path=f`, Buffer.alloc(32 << 20, letter))
  await put('a')
  for (let round = 0; round < ROUNDS; round++) {
    const letter = String.fromCharCode(98 + round)
    await killDuring(() => put(letter), round * 8)
    const { body } = await daemon.call('GET', `/v1/sessions/${id}/files?path=f`)
    expect(body.equals(Buffer.alloc(32 << 20, body[0]))).toBe(true)
    // The runner removes what it had of an interrupted write once it has lost its daemon.
    await expect.poll(async () => (await daemon.exec(id, 'ls -A /workspace | wc -l')).output.trim()).toBe('1')
  }
  await endAll()
})

test('during destroy: the session ends, and nothing of it stays', async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const { id } = await daemon.create()
    await killDuring(() => daemon.call('DELETE', `/v1/sessions/${id}`), round * 4)
    await endAll()
  }
})

test('after a power cut: every session is failed with a reason and starts again with its files, and no unrelated process is killed', async () => {
  const { id } = await daemon.create()
  await daemon.exec(id, 'echo kept > /workspace/f; sync /workspace/f')
  const path = join(daemon.dataDir, 'sessions', id, 'state.json')
  const state = JSON.parse(readFileSync(path, 'utf8'))
  await daemon.stop('SIGKILL')
  process.kill(state.pid, 'SIGKILL')
  await deadline('everything is gone but files and cgroups', async () => (await leftovers(daemon.dataDir)).processes.length === 0)
  // On the next boot another process has the number.
  const stranger = spawn('sleep', ['60'])
  onTestFinished(() => void stranger.kill())
  const stat = readFileSync(`/proc/${stranger.pid}/stat`, 'utf8')
  const start_time = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19])
  writeFileSync(path, JSON.stringify({ ...state, pid: stranger.pid, start_time, boot_id: 'of the boot before' }))
  await daemon.start()
  await expect
    .poll(async () => (await sessions()).map(({ status, reason }) => ({ status, reason })))
    .toEqual([{ status: 'failed', reason: 'machine_missing' }])
  expect((await daemon.call('POST', `/v1/sessions/${id}/start`)).status).toBe(200)
  expect((await daemon.exec(id, 'cat /workspace/f')).output.trim()).toBe('kept')
  expect(stranger.exitCode ?? stranger.signalCode).toBeNull()
  await endAll()
})

test.each(['SIGTERM', 'SIGKILL'] as const)('after %s of a daemon without sessions, no process of it is left', async signal => {
  await endAll()
  await daemon.stop(signal)
  await deadline('everything is gone', () => isGone(daemon.dataDir))
  await daemon.start()
})
