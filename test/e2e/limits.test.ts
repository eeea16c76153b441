// A session that reaches its limits, and one that gets others.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
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
  test('reports the memory limit if the kernel killed a process, and the next failing command does not', async () => {
    const { id } = await daemon.create({ memory_mb: 256 })
    expect(await daemon.exec(id, 'true')).toMatchObject({ exit_code: 0, limit_hit: null })
    expect(await daemon.exec(id, HOG)).toMatchObject({ exit_code: 137, limit_hit: { limit: 'memory_mb', value: 256 } })
    expect(await daemon.exec(id, 'false')).toMatchObject({ exit_code: 1, limit_hit: null })
    expect(await daemon.exec(id, 'sh -c "kill -9 \\$\\$"')).toMatchObject({ exit_code: 137, limit_hit: null })
    const streamed = (await daemon.call('POST', `/v1/sessions/${id}/exec/stream`, { cmd: `(${HOG}) || exit 3` })).body.toString()
    expect(streamed).toContain('"limit_hit":{"limit":"memory_mb","value":256}')
  })

  test('reports the process limit', async () => {
    const { id } = await daemon.create({ pids_limit: 64 })
    const bomb = 'import os, time\nwhile True: os.fork() or (time.sleep(600), os._exit(0))'
    expect(await daemon.exec(id, `python3 -c '${bomb}' 2>/dev/null`)).toMatchObject({
      exit_code: 1,
      limit_hit: { limit: 'pids_limit', value: 64 },
    })
    await daemon.exec(id, 'pkill -9 python3')
    await deadline('the processes are gone', async () => (await daemon.call('GET', `/v1/sessions/${id}/stats`)).json().pids < 16)
    // Starting pkill may have been refused, too: the first command that fails after that says so.
    await daemon.exec(id, 'false')
    expect(await daemon.exec(id, 'false')).toMatchObject({ limit_hit: null })
  })

  test('reports a full disk', async () => {
    const { id } = await daemon.create({ disk_mb: 1024 })
    const disk_mb = { limit_hit: { limit: 'disk_mb', value: 1024 } }
    expect(await daemon.exec(id, 'fallocate -l 900M a; head -c 300M /dev/zero > b')).toMatchObject({ exit_code: 1, ...disk_mb })
    expect(await daemon.exec(id, 'rm a b; false')).toMatchObject({ exit_code: 1, limit_hit: null })
  })
})

describe.runIf(isRoot)('a process that fails', () => {
  test('reports the limit in the list of processes, in its own reply and at the end of its output', async () => {
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

  test('and was started by an earlier daemon reports only limits met since the restart', async () => {
    const { id } = await daemon.create({ memory_mb: 256 })
    const base = `/v1/sessions/${id}/processes`
    await daemon.exec(id, HOG)
    const argv = ['sh', '-c', `until [ -e go ]; do sleep 0.05; done; ${HOG}`]
    const [waits, fails] = [
      (await daemon.call('POST', base, { argv })).json(),
      (await daemon.call('POST', base, { argv: ['false'] })).json(),
    ]
    const hasEnded = async (pid: number) => !(await daemon.call('GET', `${base}/${pid}`)).json().running
    await daemon.restart('SIGKILL')
    await deadline('it has failed', () => hasEnded(fails.pid))
    expect((await daemon.call('GET', `${base}/${fails.pid}`)).json()).toMatchObject({ exit_code: 1, limit_hit: null })
    await daemon.exec(id, 'touch go')
    await deadline('it has ended', () => hasEnded(waits.pid))
    expect((await daemon.call('GET', `${base}/${waits.pid}`)).json()).toMatchObject({
      limit_hit: { limit: 'memory_mb', value: 256 },
    })
  })
})

describe.runIf(isRoot)('resize', () => {
  const resize = async (id: string, limits: object) => (await daemon.call('POST', `/v1/sessions/${id}/resize`, limits)).json()
  const held = async (id: string) => (await daemon.call('GET', `/v1/sessions/${id}/stats`)).json()
  const BIGGER = { cpu_cores: 1.5, memory_mb: 600 }
  const bigger = { memory_limit: 600 * 1024 * 1024 }

  test('changes the limits of a running session, and they are kept over a restart of the daemon and a stop', async () => {
    const { id } = await daemon.create({ memory_mb: 256, pids_limit: 64, persist: true })
    expect(await daemon.exec(id, HOG)).toMatchObject({ exit_code: 137 })
    expect(await resize(id, BIGGER)).toMatchObject({ status: 'running', ...BIGGER })
    expect(await held(id)).toMatchObject(bigger)
    expect(await daemon.exec(id, HOG)).toMatchObject({ exit_code: 0 })
    await daemon.restart('SIGKILL')
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).json()).toMatchObject(BIGGER)
    await daemon.call('POST', `/v1/sessions/${id}/stop`)
    await daemon.call('POST', `/v1/sessions/${id}/start`)
    expect(await held(id)).toMatchObject(bigger)
  })

  test('of a paused session applies after resume, and of a stopped one after start', async () => {
    const { id } = await daemon.create({ memory_mb: 256, pids_limit: 64, persist: true })
    await daemon.call('POST', `/v1/sessions/${id}/pause`)
    expect(await resize(id, BIGGER)).toMatchObject({ status: 'paused', ...BIGGER })
    await daemon.call('POST', `/v1/sessions/${id}/resume`)
    expect(await held(id)).toMatchObject(bigger)
    await daemon.call('POST', `/v1/sessions/${id}/stop`)
    expect(await resize(id, { memory_mb: 300, pids_limit: 128 })).toMatchObject({
      status: 'stopped',
      memory_mb: 300,
      pids_limit: 128,
    })
    await daemon.call('POST', `/v1/sessions/${id}/start`)
    expect(await held(id)).toMatchObject({ memory_limit: 300 * 1024 * 1024, pids_limit: 128 })
  })

  test('of pids_limit applies at once if the daemon has CAP_SYS_RESOURCE, and is refused otherwise', async () => {
    const { id } = await daemon.create({ pids_limit: 64 })
    const resized = await resize(id, { pids_limit: 128 })
    if (mayLimitProcesses()) expect(resized).toMatchObject({ pids_limit: 128 })
    else expect(resized.error).toMatchObject({ code: 'UNSUPPORTED', message: expect.stringContaining('CAP_SYS_RESOURCE') })
    expect(await held(id)).toMatchObject({ pids_limit: mayLimitProcesses() ? 128 : 64 })
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).json()).toMatchObject({ pids_limit: mayLimitProcesses() ? 128 : 64 })
  })

  test('to less memory than is used is refused, and nothing is killed', async () => {
    const { id } = await daemon.create({ memory_mb: 600 })
    const keeps =
      "python3 -c \"import time; b = bytearray(400 << 20); open('ready', 'w'); time.sleep(600)\" & until [ -e ready ]; do sleep 0.05; done"
    await daemon.exec(id, keeps)
    expect((await resize(id, { memory_mb: 300 })).error).toMatchObject({
      code: 'MEMORY_IN_USE',
      message: expect.stringMatching(/uses 4\d\d MiB of memory: with a limit of 300 MiB/),
    })
    expect(await daemon.exec(id, 'jobs -r | wc -l')).toMatchObject({ output: '1\n' })
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).json()).toMatchObject({ memory_mb: 600 })
  })

  test('that was interrupted by a kill of the daemon is completed by the next daemon', async () => {
    const { id } = await daemon.create({ memory_mb: 256, pids_limit: 64 })
    await daemon.stop('SIGKILL')
    const store = new DatabaseSync(join(daemon.dataDir, 'sandglass.db'))
    store.prepare('update sessions set resizing = ? where id = ?').run(JSON.stringify({ ...BIGGER, pids_limit: 64 }), id)
    store.close()
    await daemon.start()
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).json()).toMatchObject(BIGGER)
    expect(await held(id)).toMatchObject(bigger)
  })

  test('is refused without a limit, and above the maximum of the configuration', async () => {
    const { id } = await daemon.create({ start: false })
    expect((await resize(id, {})).error.message).toContain('give at least one of cpu_cores, memory_mb and pids_limit')
    expect((await resize(id, { memory_mb: 9000 })).error).toMatchObject({
      code: 'INVALID_REQUEST',
      message: 'memory_mb must be at most 8192 MiB, not 9000',
      hint: expect.stringContaining('limits.max_memory_mb'),
    })
  })
})

describe.runIf(isRoot)('an operator who raises a ceiling', () => {
  const raised = new RealDaemon(['--limits-max-memory-mb', '16GB', '--limits-max-cpu-cores', '8'])
  afterAll(() => raised.remove())

  test('gets sessions up to the new ceiling, and larger ones are refused', async () => {
    await raised.start()
    const { id } = await raised.create({ memory_mb: 12_000, cpu_cores: 6 })
    expect((await raised.call('GET', `/v1/sessions/${id}/stats`)).json()).toMatchObject({ memory_limit: 12_000 * 1024 * 1024 })
    const refused = await raised.call('POST', '/v1/sessions', { memory_mb: 20_000 })
    expect(refused.json().error.message).toBe('memory_mb must be at most 16384 MiB, not 20000')
  })
})

describe.runIf(isRoot)('a session that holds too many open files', () => {
  const [open, , max] = readFileSync('/proc/sys/fs/file-nr', 'utf8').split('\t').map(Number)
  const watched = new RealDaemon(['--limits-reserved-open-files', String((max ?? 0) - (open ?? 0) - 150_000)])
  afterAll(() => watched.remove())

  /** Each of 80 processes opens what it can. */
  const MANY = [
    'import os, time',
    'for _ in range(80):',
    '  if os.fork() == 0:',
    '    try:',
    '      while True: os.open("/dev/null", os.O_RDONLY)',
    '    except OSError: time.sleep(600)',
    'time.sleep(600)',
  ].join('\n')

  test('is ended with that as its reason, and others go on and open theirs', async () => {
    await watched.start()
    const [hog, other] = [await watched.create({ memory_mb: 2048, cpu_cores: 2 }), await watched.create({ name: 'other' })]
    const { error } = await watched.exec(hog.id, `python3 -c '${MANY}'`)
    expect(error).toMatchObject({ code: 'RUNNER_LOST', detail: { state: 'failed', reason: 'host_limit' } })
    expect(error.message).toMatch(/had about \d+ of the host's \d+ open files/)
    const opens = 'python3 -c "import os; print(len([os.open(\'/dev/null\', 0) for _ in range(1000)]))"'
    expect(await watched.exec(other.id, opens)).toMatchObject({ exit_code: 0, output: '1000\n' })
    expect((await watched.call('POST', `/v1/sessions/${hog.id}/start`)).json()).toMatchObject({ status: 'running' })
  })
})

function mayLimitProcesses(): boolean {
  const effective = readFileSync('/proc/self/status', 'utf8').match(/^CapEff:\s+([0-9a-f]+)$/m)?.[1] ?? '0'
  return ((BigInt(`0x${effective}`) >> 24n) & 1n) === 1n
}
