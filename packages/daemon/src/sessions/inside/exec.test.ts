import { describe, expect, it } from 'vitest'
import { daemonFixture, type TestDaemon, until } from '../../testing/daemon.fixture.ts'
import type { LiveSession } from '../live.ts'
import { boundedCwd, execDone } from './exec.ts'

const exec = (daemon: TestDaemon, id: string, body: object) => daemon.call('POST', `/v1/sessions/${id}/exec`, body)

describe('exec', () => {
  it('removes what the terminal adds, unless raw output is requested', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const cmd = String.raw`printf '\033[31mred\033[0m\n\377\n'`
    expect((await exec(daemon, id, { cmd })).body).toMatchObject({ output: 'red\n\ufffd\n' })
    expect((await exec(daemon, id, { cmd, raw_output: true })).body).toMatchObject({ output: '\x1b[31mred\x1b[0m\r\n\ufffd\r\n' })
  })

  it('past its timeout replies 200 with the output so far, and the shell goes on', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    await exec(daemon, id, { cmd: 'export KEPT=1' })
    const reply = await exec(daemon, id, { cmd: 'echo before; sleep 20 | cat', timeout_ms: 4000 })
    expect([reply.status, reply.body]).toMatchObject([200, { timed_out: true, exit_code: 124, output: 'before\n' }])
    expect((await exec(daemon, id, { cmd: 'echo $KEPT' })).body).toMatchObject({ output: '1\n' })
  })

  it('refuses a timeout above the maximum instead of shortening it', async () => {
    const daemon = await daemonFixture({ flags: { 'defaults-max-exec-timeout-ms': ['1000'] } })
    const { id } = await daemon.create()
    expect((await exec(daemon, id, { cmd: 'true', timeout_ms: 1001 })).body).toMatchObject({
      error: { code: 'TIMEOUT_TOO_LONG', detail: { timeout_ms: 1001, max_ms: 1000 } },
    })
    expect((await exec(daemon, id, { cmd: 'true', timeout_ms: 1000 })).status).toBe(200)
    expect((await exec(daemon, id, { cmd: 'true' })).status).toBe(200)
  })

  it('cuts the middle of long output and marks it as truncated', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const { body } = await exec(daemon, id, {
      cmd: 'echo first; head -c 5000000 /dev/zero | tr "\\0" x; echo; echo last',
      max_output_bytes: 1000,
    })
    const { output, truncated } = body as { output: string; truncated: boolean }
    expect([truncated, output.startsWith('first\n'), output.endsWith('last\n')]).toEqual([true, true, true])
    expect(output.length).toBeLessThan(1200)
  })

  it('in the main shell changes the session’s working directory; in another shell it does not', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const cwd = async () => ((await daemon.call('GET', `/v1/sessions/${id}`)).body as { cwd: string }).cwd
    await exec(daemon, id, { cmd: 'cd /usr' })
    expect(await cwd()).toBe('/usr')
    await exec(daemon, id, { cmd: 'cd /etc', shell: 'other' })
    expect(await cwd()).toBe('/usr')
  })

  it('that ends its own shell reports it, and the next command gets a new shell', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    expect((await exec(daemon, id, { cmd: 'kill -9 $$' })).body).toMatchObject({ shell_exited: true })
    expect((await exec(daemon, id, { cmd: 'echo back' })).body).toMatchObject({ output: 'back\n', exit_code: 0 })
  })

  it.each([
    ['an empty command', { cmd: '' }],
    ['NUL', { cmd: 'a\0b' }],
    ['a command over 1 MiB', { cmd: 'x'.repeat(1_048_577) }],
    ['a bad shell name', { cmd: 'true', shell: '../x' }],
    ['an unknown field', { cmd: 'true', timeout: 3 }],
  ])('refuses %s', async (_what, body) => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create({ start: false })
    expect((await exec(daemon, id, body)).body).toMatchObject({ error: { code: 'INVALID_REQUEST' } })
  })
})

describe('shells', () => {
  it('are created, listed and removed', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const base = `/v1/sessions/${id}/shells`
    expect((await daemon.call('POST', base, { name: 'work', env: { A: 'b' }, size: { cols: 90, rows: 20 } })).body).toMatchObject(
      { name: 'work', program: expect.stringMatching(/bash|sh/), busy: false },
    )
    expect((await daemon.call('POST', base, { name: 'work' })).body).toMatchObject({ error: { code: 'SHELL_EXISTS' } })
    expect((await exec(daemon, id, { cmd: 'echo $A; stty size </dev/tty', shell: 'work' })).body).toMatchObject({
      output: 'b\n20 90\n',
    })
    expect((await daemon.call('GET', base)).body).toMatchObject({
      items: [{ name: 'work', created_at: expect.stringMatching(/Z$/) }],
    })
    expect((await daemon.call('DELETE', `${base}/work`)).body).toEqual({ ok: true })
    expect((await daemon.call('DELETE', `${base}/work`)).body).toMatchObject({ error: { code: 'SHELL_NOT_FOUND' } })
  })
})

describe('processes', () => {
  it('are started, listed, written to, signalled, and shown after they ended', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const base = `/v1/sessions/${id}/processes`
    const started = await daemon.call('POST', base, { argv: ['cat'], stdin: true, tag: 'my-cat' })
    expect([started.status, started.body]).toMatchObject([201, { running: true, tag: 'my-cat', exit_code: null, ended_at: null }])
    const { pid } = started.body as { pid: number }
    expect((await daemon.call('POST', `${base}/${pid}/stdin`, { text: 'x', close: true })).body).toEqual({ ok: true })
    const shown = await until(async () => {
      const body = (await daemon.call('GET', `${base}/${pid}`)).body as { running: boolean }
      return !body.running && body
    })
    expect(shown).toMatchObject({ running: false, exit_code: 0, ended_at: expect.stringMatching(/Z$/) })
    expect((await daemon.call('POST', `${base}/${pid}/signal`, { signal: 'BOGUS' })).body).toMatchObject({
      error: { code: 'INVALID_REQUEST' },
    })
    expect((await daemon.call('POST', `${base}/4000000/signal`, { signal: 'TERM' })).body).toMatchObject({
      error: { code: 'PROCESS_NOT_FOUND' },
    })
    expect((await daemon.call('POST', base, { argv: ['/no/such/program'] })).body).toMatchObject({
      error: { code: 'FILE_NOT_FOUND' },
    })
  })
})

it('a working directory is kept as it is, and a longer one is cut between characters at the length of a path', () => {
  for (const cwd of ['/workspace', `/${'x'.repeat(4095)}`, '/é']) expect(boundedCwd(cwd)).toBe(cwd)
  expect(boundedCwd(`/${'x'.repeat(7_000_000)}`)).toBe(`/${'x'.repeat(4095)}`)
  expect(boundedCwd('é'.repeat(5000))).toBe('é'.repeat(2048))
  expect(boundedCwd(`/${'é'.repeat(5000)}`)).toBe(`/${'é'.repeat(2047)}`)
  expect(boundedCwd(`/${'😀'.repeat(5000)}`)).toBe(`/${'😀'.repeat(1023)}`)
})

it('a forged working directory of megabytes is in neither the reply nor the record', async () => {
  const daemon = await daemonFixture()
  const { id } = await daemon.create()
  const live = daemon.context.live.get(id) as LiveSession
  const done = execDone(live, 'main', null, { exit_code: 0, cwd: `/${'x'.repeat(7_000_000)}`, duration_ms: 1 })
  expect([done.cwd.length, live.record.cwd.length]).toEqual([4096, 4096])
  expect((await daemon.call('GET', '/v1/sessions')).text.length).toBeLessThan(10_000)
})

it('a streaming command counts in the metrics as a plain one does', async () => {
  const daemon = await daemonFixture()
  const { id } = await daemon.create()
  const stream = async (body: object) =>
    (
      await daemon.fetch(`/v1/sessions/${id}/exec/stream`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
    ).text()
  const metric = async (name: string) => {
    const { text } = await daemon.call('GET', '/metrics')
    return Number(
      text
        .split('\n')
        .find(line => line.startsWith(`${name} `))
        ?.split(' ')
        .at(-1) ?? 0,
    )
  }
  await exec(daemon, id, { cmd: 'true' })
  await stream({ cmd: 'true' })
  await stream({ cmd: 'sleep 20', timeout_ms: 100 })
  await stream({ cmd: 'true', shell: 'no-such-shell', cwd: '/no-such-folder' })
  expect(await metric('sandglass_execs_total{outcome="timed_out"}')).toBe(1)
  const counted =
    (await metric('sandglass_execs_total{outcome="ended"}')) + (await metric('sandglass_execs_total{outcome="error"}'))
  expect([counted, await metric('sandglass_exec_seconds_count')]).toEqual([3, 4])
})
