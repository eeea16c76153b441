// Commands that misbehave, clients that disconnect or read slowly, and crashes of the runner and the daemon.
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { deadline } from './deadline.ts'
import { type Json, RealDaemon } from './real-daemon.ts'

const daemon = new RealDaemon()
let id: string

beforeAll(async () => {
  await daemon.start()
})
beforeEach(async () => {
  id = (await daemon.create({ memory_mb: 256, pids_limit: 64 })).id
  return () => daemon.call('DELETE', `/v1/sessions/${id}`).then(() => undefined)
})
afterAll(() => daemon.remove())

describe('a command that', () => {
  test('prints 1 GiB runs to its end, and the middle of its output is cut', { timeout: 180_000 }, async () => {
    const { id } = await daemon.create({ cpu_cores: 4 })
    const before = daemonMb()
    const result = await daemon.exec(id, 'yes 0123456789 | head -c 1073741824; echo the-end', { timeout_ms: 120_000 })
    expect(result).toMatchObject({ exit_code: 0, truncated: true })
    expect(result.output.length).toBeLessThanOrEqual(2 ** 20 + 200)
    expect(result.output.trimEnd().endsWith('the-end')).toBe(true)
    expect(daemonMb() - before).toBeLessThan(100)
  })

  test('prints text that looks like an end marker still runs to its end', async () => {
    const fake = String.raw`printf '\n__SANDKASTEN_END__:x:7:/tmp\n'; printf '\0%s\0/tmp\0' 7; echo real; (exit 3)`
    expect(await daemon.exec(id, fake)).toMatchObject({ exit_code: 3, cwd: '/workspace' })
    expect((await daemon.exec(id, 'echo next')).output.trim()).toBe('next')
  })

  test('prints invalid UTF-8 and escape sequences has clean text in its result', async () => {
    const { output } = await daemon.exec(id, String.raw`printf 'a\xff\xfeb\e[31mred\e[0m\e]52;c;aGk=\ae'`)
    expect(output).toBe('a\uFFFD\uFFFDbrede')
  })

  test('closes its own stdout leaves the shell usable', async () => {
    expect((await daemon.exec(id, 'exec >&- 2>&-')).exit_code).toBe(0)
    expect((await daemon.exec(id, 'true')).exit_code).toBe(0)
  })

  test('kills its shell has shell_exited in its result, and the next command gets a new shell', async () => {
    await daemon.exec(id, 'cd /tmp; export GONE=1')
    expect(await daemon.exec(id, 'kill -9 $$')).toMatchObject({ exit_code: 137, shell_exited: true })
    expect((await daemon.exec(id, 'echo "[$GONE]" $PWD')).output.trim()).toBe('[] /workspace')
  })

  test('exits its shell returns the exit code', async () => {
    expect(await daemon.exec(id, 'exit 3')).toMatchObject({ exit_code: 3, shell_exited: true })
  })

  test('reads stdin gets end of file, and one that reads the terminal is killed by its timeout and does not read the next command', async () => {
    expect(await daemon.exec(id, 'cat')).toMatchObject({ exit_code: 0, output: '' })
    expect(await daemon.exec(id, 'cat </dev/tty', { timeout_ms: 300 })).toMatchObject({ exit_code: 124, timed_out: true })
    expect((await daemon.exec(id, 'echo next')).output.trim()).toBe('next')
  })

  test('exceeds its timeout is killed with its children and its pipeline, and the shell keeps its state', async () => {
    await daemon.exec(id, 'cd /tmp; export KEPT=yes; sleep 1000 &')
    const stubborn = `bash -c 'trap "" INT TERM; sleep 987 & sleep 987' | cat`
    expect(await daemon.exec(id, `echo started; ${stubborn}`, { timeout_ms: 500 })).toMatchObject({
      exit_code: 124,
      timed_out: true,
    })
    const after = () => daemon.exec(id, 'echo $KEPT $PWD; jobs -pr | wc -l; pgrep -c -f "sleep 987"')
    // A killed process ends a moment after the signal.
    await expect.poll(async () => (await after()).output.split(/\s+/).filter(Boolean)).toEqual(['yes', '/tmp', '1', '0'])
  })

  test('forks without end is stopped by the process limit, and the session can be used again', { timeout: 120_000 }, async () => {
    await daemon.exec(id, ':(){ :|:& };:', { timeout_ms: 1500 })
    await daemon.call('DELETE', `/v1/sessions/${id}/shells/main`)
    // A shell of the bomb that cannot fork tries again for 15 seconds, and keeps its place meanwhile.
    const answers = async () => {
      await daemon.exec(id, 'kill -9 -1', { shell: 'rescue', timeout_ms: 5000 })
      return (await daemon.exec(id, 'echo alive', { timeout_ms: 5000 })).output?.trim() === 'alive'
    }
    await deadline('the session answers', answers, 90_000)
  })

  test('exceeds the memory limit is killed, and the session keeps running', async () => {
    const hog = `python3 -c 'b = bytearray(900 * 1024 * 1024)'`
    expect((await daemon.exec(id, hog)).exit_code).toBe(137)
    expect((await daemon.exec(id, 'echo alive')).output.trim()).toBe('alive')
    expect((await daemon.call('GET', `/v1/sessions/${id}/stats`)).json().oom_kills).toBeGreaterThan(0)
  })

  test('fills its disk gets "no space", and another session can still write', { timeout: 180_000 }, async () => {
    const full = await daemon.exec(id, 'head -c 3G /dev/zero > /workspace/big; echo code=$?', { timeout_ms: 120_000 })
    expect(full.output).toContain('No space left')
    const write = await daemon.call('POST', `/v1/sessions/${id}/fs/write`, { path: 'more', text: 'x'.repeat(1 << 20) })
    expect(write.json().error.code).toBe('DISK_FULL')
    const other = await daemon.create()
    expect((await daemon.exec(other.id, 'echo ok > f && cat f')).output.trim()).toBe('ok')
  })
})

describe('clients', () => {
  test('a client that disconnects mid-stream interrupts its command and leaves the shell usable', async () => {
    const socket = connect(daemon.socket)
    const body = JSON.stringify({ cmd: 'for i in $(seq 300); do echo tick; sleep 0.2; done; touch finished' })
    const head = `POST /v1/sessions/${id}/exec/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${daemon.key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`
    socket.write(head + body)
    let seen = ''
    for await (const chunk of socket) {
      seen += chunk
      if (seen.includes('tick')) break
    }
    expect(await daemon.exec(id, 'ls finished')).toMatchObject({ exit_code: 2, timed_out: false })
  })

  test('two clients in one shell run one after the other, each with its own output', async () => {
    const results = await Promise.all(
      [1, 2, 3, 4].map(n => daemon.exec(id, `for i in 1 2 3; do echo from-${n}; sleep 0.05; done`)),
    )
    results.forEach((result: Json, i) => {
      expect(result.output.trim().split('\n')).toEqual(Array(3).fill(`from-${i + 1}`))
    })
  })

  test('different sessions never wait for each other', async () => {
    const other = await daemon.create()
    const slow = daemon.exec(id, 'sleep 5')
    expect((await daemon.exec(other.id, 'echo quick')).output.trim()).toBe('quick')
    await daemon.call('DELETE', `/v1/sessions/${id}`)
    await slow
  })

  test('a client that reads slowly makes the command wait, and the daemon does not buffer its output', async () => {
    const socket = connect(daemon.socket)
    const body = JSON.stringify({ cmd: 'head -c 300M /dev/zero | tr "\\0" x; echo', timeout_ms: 60_000 })
    socket.write(
      `POST /v1/sessions/${id}/exec/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${daemon.key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
    await new Promise(resolve => socket.once('readable', resolve))
    const before = daemonMb()
    const stats = async () => (await daemon.call('GET', `/v1/sessions/${id}/stats`)).json().cpu_usage_usec as number
    let last = -1
    let stillLooks = 0
    await deadline('the writer stands still', async () => {
      const now = await stats()
      stillLooks = now - last < 2000 ? stillLooks + 1 : 0
      last = now
      return stillLooks === 10
    })
    expect(daemonMb() - before).toBeLessThan(100)
    socket.destroy()
  })
})

describe('crashes and restarts', () => {
  test('a session whose runner is killed fails with a reason, and has its files when it is started again', async () => {
    await daemon.exec(id, 'echo kept > /workspace/kept')
    expect((await daemon.exec(id, 'kill -9 1')).exit_code).toBe(1)
    const { pid } = JSON.parse(readFileSync(`${daemon.dataDir}/sessions/${id}/state.json`, 'utf8'))
    process.kill(pid, 'SIGKILL')
    await deadline(
      'the session is failed',
      async () => (await daemon.call('GET', `/v1/sessions/${id}`)).json().status === 'failed',
    )
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).json()).toMatchObject({ reason: 'runner_exited' })
    expect((await daemon.call('POST', `/v1/sessions/${id}/start`)).status).toBe(200)
    expect((await daemon.exec(id, 'cat /workspace/kept')).output.trim()).toBe('kept')
  })

  test('a restart of the daemon loses no shell state, shell or process', async () => {
    await daemon.exec(id, 'cd /tmp; export KEPT=yes; f() { echo from-f; }; sleep 1000 &')
    const started = (await daemon.call('POST', `/v1/sessions/${id}/processes`, { argv: ['sleep', '1000'], tag: 'long' })).json()
    await daemon.restart('SIGTERM')
    expect((await daemon.exec(id, 'echo $KEPT $PWD $(f) $(jobs -pr | wc -l)')).output.trim()).toBe('yes /tmp from-f 1')
    await daemon.restart('SIGKILL')
    expect((await daemon.exec(id, 'echo $KEPT $PWD $(f) $(jobs -pr | wc -l)')).output.trim()).toBe('yes /tmp from-f 1')
    const { items } = (await daemon.call('GET', `/v1/sessions/${id}/processes`)).json()
    expect(items).toContainEqual(expect.objectContaining({ pid: started.pid, tag: 'long', running: true }))
    const shells = (await daemon.call('GET', `/v1/sessions/${id}/shells`)).json().items
    expect(shells).toContainEqual(expect.objectContaining({ name: 'main', cwd: '/tmp' }))
  })

  test('a second daemon on the same data folder refuses to start', async () => {
    const second = new RealDaemon([], daemon.dataDir, 'other.sock')
    await expect(second.start()).rejects.toThrow(/already uses/)
  })
})

function daemonMb(): number {
  const kb = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))?.[1]
  return Number(kb) / 1024
}
