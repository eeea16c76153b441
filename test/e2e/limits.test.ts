// A session that reaches its limits, and one that gets others.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deadline } from './deadline.ts'
import { RealDaemon } from './real-daemon.ts'

/** Only a daemon of root has cgroups everywhere. */
const isRoot = process.getuid?.() === 0
const HOG = 'python3 -c "b = bytearray(400 << 20)"'
const daemon = new RealDaemon()

beforeAll(async () => {
  if (isRoot) await daemon.start()
})
afterAll(() => daemon.remove())

describe.runIf(isRoot)('a command that fails', () => {
  test('tells the memory limit when the kernel killed a process, and the next one that fails does not', async () => {
    const { id } = await daemon.create({ memory_mb: 256 })
    expect(await daemon.exec(id, 'true')).toMatchObject({ exit_code: 0, limit_hit: null })
    expect(await daemon.exec(id, HOG)).toMatchObject({ exit_code: 137, limit_hit: { limit: 'memory_mb', value: 256 } })
    expect(await daemon.exec(id, 'false')).toMatchObject({ exit_code: 1, limit_hit: null })
    expect(await daemon.exec(id, 'sh -c "kill -9 \\$\\$"')).toMatchObject({ exit_code: 137, limit_hit: null })
    const streamed = (await daemon.call('POST', `/v1/sessions/${id}/exec/stream`, { cmd: `(${HOG}) || exit 3` })).body.toString()
    expect(streamed).toContain('"limit_hit":{"limit":"memory_mb","value":256}')
  })

  test('tells the limit of processes', async () => {
    const { id } = await daemon.create({ pids_limit: 64 })
    const bomb = 'import os, time\nwhile True: os.fork() or (time.sleep(600), os._exit(0))'
    expect(await daemon.exec(id, `python3 -c '${bomb}' 2>/dev/null`)).toMatchObject({
      exit_code: 1,
      limit_hit: { limit: 'pids_limit', value: 64 },
    })
    expect(await daemon.exec(id, 'pkill -9 python3; wait; false')).toMatchObject({ limit_hit: null })
  })

  test('tells that the disk is full', async () => {
    const { id } = await daemon.create({ disk_mb: 1024 })
    const disk_mb = { limit_hit: { limit: 'disk_mb', value: 1024 } }
    expect(await daemon.exec(id, 'fallocate -l 900M a; head -c 300M /dev/zero > b')).toMatchObject({ exit_code: 1, ...disk_mb })
    expect(await daemon.exec(id, 'rm a b; false')).toMatchObject({ exit_code: 1, limit_hit: null })
  })
})

describe.runIf(isRoot)('a process that fails', () => {
  test('tells the limit in its list, in its own reply and at the end of its output', async () => {
    const { id } = await daemon.create({ memory_mb: 256 })
    const base = `/v1/sessions/${id}/processes`
    const { pid } = (await daemon.call('POST', base, { argv: ['sh', '-c', HOG] })).json()
    const limit_hit = { limit: 'memory_mb', value: 256 }
    expect((await daemon.call('GET', `${base}/${pid}/output`)).body.toString()).toContain(
      `data: {"exit_code":137,"timed_out":false,"limit_hit":${JSON.stringify(limit_hit)}}`,
    )
    expect((await daemon.call('GET', `${base}/${pid}`)).json()).toMatchObject({ exit_code: 137, limit_hit })
    const later = (await daemon.call('POST', base, { argv: ['false'] })).json()
    await deadline('it has ended', async () => !(await daemon.call('GET', `${base}/${later.pid}`)).json().running)
    expect((await daemon.call('GET', base)).json().items).toMatchObject([
      { pid, limit_hit },
      { pid: later.pid, limit_hit: null },
    ])
  })

  test('that a daemon before this one started is told of with what happened since', async () => {
    const { id } = await daemon.create({ memory_mb: 256 })
    const base = `/v1/sessions/${id}/processes`
    await daemon.exec(id, HOG)
    const argv = ['sh', '-c', `until [ -e go ]; do sleep 0.05; done; ${HOG}`]
    const [waits, fails] = [
      (await daemon.call('POST', base, { argv })).json(),
      (await daemon.call('POST', base, { argv: ['false'] })).json(),
    ]
    await daemon.restart('SIGKILL')
    expect((await daemon.call('GET', `${base}/${fails.pid}`)).json()).toMatchObject({ exit_code: 1, limit_hit: null })
    await daemon.exec(id, 'touch go')
    await deadline('it has ended', async () => !(await daemon.call('GET', `${base}/${waits.pid}`)).json().running)
    expect((await daemon.call('GET', `${base}/${waits.pid}`)).json()).toMatchObject({
      limit_hit: { limit: 'memory_mb', value: 256 },
    })
  })
})
