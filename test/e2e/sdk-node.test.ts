// The Node half of the SDK with a daemon: found, started, and used through its unix socket.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect as tcp } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { connectLocal, type SandboxClient, SandglassError, type Session, type SessionInfo } from '@sandglass/sdk/node'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  daemonFixture,
  KEY,
  plainChild,
  type TestDaemon,
  temporaryFolder,
  until,
} from '../../packages/daemon/src/testing/daemon.fixture.ts'
import { CliHome, isAlive } from './cli-home.ts'

const run = promisify(execFile)

/** What sdk-program.mjs prints. */
const PROGRAM = 'SESSION_NOT_FOUND\nshell-42 typed 0\nDIALLED FORWARDED\nterminated requested\n'
const UPPER = `import socket
s = socket.create_server(("127.0.0.1", 0))
open("port", "w").write(str(s.getsockname()[1]))
while True:
    c = s.accept()[0]
    said = b""
    while piece := c.recv(65536): said += piece
    c.sendall(said.upper())
    c.close()`

describe('a client of connectLocal', () => {
  let daemon: TestDaemon
  let client: SandboxClient
  let session: Session
  beforeEach(async () => {
    daemon = await daemonFixture()
    writeFileSync(join(daemon.dataDir, 'api-key'), KEY, { mode: 0o600 }) // as a daemon without a key in its configuration does
    client = connectLocal({ dataDir: daemon.dataDir, start: false })
    session = await client.createSession()
  })

  it('attaches to shells and processes, dials and forwards ports through the unix socket', async () => {
    const { stdout } = await run(process.execPath, ['test/e2e/sdk-program.mjs'], { env: { SANDGLASS_DATA_DIR: daemon.dataDir } })
    expect(stdout).toBe(PROGRAM)
  })

  it('gets the daemon’s own error when a socket is refused', async () => {
    await expect(client.session('nobody').attachShell()).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' })
    await expect(session.processes.attach(999_999)).rejects.toMatchObject({ code: 'PROCESS_NOT_FOUND' })
    await expect(session.dial(1)).rejects.toMatchObject({ code: 'PORT_CLOSED' })
    const stranger = connectLocal({ dataDir: daemon.dataDir, apiKey: 'sk-wrong-0123456789', start: false })
    await expect(stranger.session(session.id).attachShell()).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
  })

  it('writes and reads text and bytes, small and large', async () => {
    const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => (i * 7) % 256)
    await session.write('small.bin', bytes.slice(0, 1000))
    await session.write('large.bin', bytes)
    await session.write('text.txt', 'é\n')
    expect(Buffer.from(await session.read('small.bin')).equals(bytes.subarray(0, 1000))).toBe(true)
    expect(Buffer.from(await session.read('large.bin')).equals(bytes)).toBe(true)
    expect(Buffer.from(await session.read('large.bin', { maxBytes: 10 })).equals(bytes.subarray(0, 10))).toBe(true)
    expect(await session.readText('text.txt')).toBe('é\n')
  })

  it('destroys a session, and with purge its row', async () => {
    await session.destroy()
    expect(session.status).toBe('terminated')
    expect((await client.getSession(session.id)).status).toBe('terminated')
    await expect(session.exec('true')).rejects.toMatchObject({ code: 'WRONG_STATE' })
    await session.destroy({ purge: true })
    await expect(client.getSession(session.id)).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' })
  })

  it('reads text and JSON, and names the file that is not JSON', async () => {
    await session.write('data.json', '{"snake_case": [1, "é"]}')
    expect(await session.readText('data.json')).toBe('{"snake_case": [1, "é"]}')
    expect(await session.readJson('data.json')).toEqual({ snake_case: [1, 'é'] })
    await session.write('broken.json', '{"a": ')
    const error = await session.readJson('broken.json').catch((e: Error) => e)
    expect(error).toBeInstanceOf(SandglassError)
    expect(error).toMatchObject({ code: 'FILE_NOT_JSON', detail: { path: 'broken.json' } })
    expect(error).toMatchObject({ message: expect.stringContaining('broken.json') })
    await expect(session.readText('nothing')).rejects.toMatchObject({ code: 'FILE_NOT_FOUND' })
  })

  it('forwards a port to loopback, carries connections at once, and lets go of it', async () => {
    await session.write('upper.py', UPPER)
    await session.exec('python3 upper.py & until [ -s port ]; do sleep 0.01; done')
    const port = Number(await session.readText('port'))
    const forward = await session.forward(port)
    expect(forward.host).toBe('127.0.0.1')
    const say = async (words: string) => {
      const socket = tcp({ port: forward.port, host: forward.host, allowHalfOpen: true })
      socket.end(words)
      return text(socket)
    }
    expect(await Promise.all(['one', 'two', 'x'.repeat(300_000)].map(say))).toEqual(['ONE', 'TWO', 'X'.repeat(300_000)])
    const idle = tcp(forward.port, forward.host)
    await once(idle, 'connect')
    await Promise.all([once(idle, 'close'), forward.close()])
    const [refused] = await once(tcp(forward.port, forward.host), 'error')
    expect(refused).toMatchObject({ code: 'ECONNREFUSED' })
  })

  it('passes a refused connection of a forwarded port to onError, and cannot forward from a session that is not running', async () => {
    const failures: unknown[] = []
    const forward = await session.forward(1, { onError: error => failures.push(error) })
    await once(
      tcp(forward.port, forward.host).on('error', () => undefined),
      'close',
    )
    expect(failures).toEqual([expect.objectContaining({ code: 'PORT_CLOSED' })])
    await expect(session.forward(1, { localPort: forward.port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
    await forward[Symbol.asyncDispose]()
    await session.stop()
    await expect(session.forward(1)).rejects.toMatchObject({ code: 'WRONG_STATE' })
  })

  it.each([
    ['stopped', (s: Session) => s.stop()],
    ['terminated', (s: Session) => s.terminate()],
    ['terminated', (s: Session) => s.destroy({ purge: true })],
  ])('calls back once when a session is %s', async (status, end) => {
    const told: SessionInfo[] = []
    session.on('exit', info => told.push(info))
    await end(client.session(session.id))
    await until(() => told.length > 0)
    expect(told).toEqual([expect.objectContaining({ id: session.id, status, reason: 'requested' })])
    expect(session.status).toBe(status)
  })

  it('calls back with the reason when the machine dies', async () => {
    const told: SessionInfo[] = []
    session.on('exit', info => told.push(info))
    const [backend] = daemon.context.backends.values()
    await backend?.discard(session.id)
    await until(() => told.length > 0)
    expect(told).toEqual([
      expect.objectContaining({ status: 'failed', reason: expect.stringMatching(/runner_exited|machine_missing/) }),
    ])
  })

  it('calls an exit listener at the next end of a restarted session, and immediately for a session that has ended', async () => {
    await session.stop()
    await session.start()
    const told: string[] = []
    const unsubscribe = session.on('exit', () => told.push('unsubscribed'))
    session.on('exit', info => told.push(info.status))
    await session.pause()
    await session.resume()
    await session.exec('true')
    expect(told).toEqual([])
    unsubscribe()
    await session.terminate()
    await until(() => told.length > 0)
    client.session(session.id).on('exit', info => told.push(`${info.status} again`))
    await until(() => told.length > 1)
    expect(told).toEqual(['terminated', 'terminated again'])
  })

  it('calls onError of an exit listener for a session that does not exist', async () => {
    const failed = Promise.withResolvers<unknown>()
    client.session('nobody').on('exit', () => failed.resolve('exit'), { onError: failed.resolve })
    expect(await failed.promise).toMatchObject({ code: 'SESSION_NOT_FOUND' })
  })

  it('waits for the end of a session without keeping the program running', async () => {
    const script = `
      import { connectLocal } from '@sandglass/sdk/node'
      const session = connectLocal().session('${session.id}')
      session.on('exit', () => console.log('never'))
      console.log((await session.exec('echo used')).output.trim())`
    expect((await node(script, { SANDGLASS_DATA_DIR: daemon.dataDir })).stdout).toBe('used\n')
  })
})

it('an exit listener is called also if the daemon restarted meanwhile', async () => {
  const [dataDir, machines] = [await temporaryFolder(), await temporaryFolder()]
  const backends = () => [plainChild(machines)]
  const before = await daemonFixture({ dataDir, backends })
  const session = await connectLocal({ dataDir, apiKey: KEY }).createSession()
  const told: SessionInfo[] = []
  session.on('exit', info => told.push(info))
  await before.close()
  const after = await daemonFixture({ dataDir, backends })
  await after.call('POST', `/v1/sessions/${session.id}/terminate`)
  await until(() => told.length > 0, 20_000)
  expect(told).toEqual([expect.objectContaining({ status: 'terminated', reason: 'requested' })])
})

describe('with no daemon running', () => {
  let cli: CliHome
  beforeEach(async () => {
    cli = await CliHome.open()
  })
  afterEach(() => cli?.close())

  it('a program that connects starts one, and two at once start one', async () => {
    const health = `import { connectLocal } from '@sandglass/sdk/node'\nconsole.log((await connectLocal().health()).status)`
    const [program, other] = await Promise.all([
      run(process.execPath, ['test/e2e/sdk-program.mjs'], { env: cli.env }),
      node(health, cli.env),
    ])
    expect([program.stdout, other.stdout]).toEqual([PROGRAM, 'ok\n'])
    expect(isAlive(cli.daemonPid)).toBe(true)
    // Both used the same: its log has one start.
    expect(readFileSync(join(cli.dataDir, 'daemon.log'), 'utf8').match(/"listening"/g)).toHaveLength(1)
  }, 60_000)

  it('start: false fails with a next step and starts none', async () => {
    const client = connectLocal({ dataDir: cli.dataDir, start: false })
    const error = await client.health().catch(e => e)
    expect(error).toMatchObject({ code: 'DAEMON_UNREACHABLE', hint: expect.stringContaining('sandglass') })
    expect(error.message).toContain('no daemon has run there')
    await expect(client.session('x').attachShell()).rejects.toMatchObject({ code: 'DAEMON_UNREACHABLE' })
  })

  it('a daemon that does not start fails with the same reason as on the command line', async () => {
    const script = `
      import { connectLocal } from '@sandglass/sdk/node'
      const error = await connectLocal().listSessions().catch(e => e)
      console.log(JSON.stringify([error.code, error.message, error.hint]))`
    const broken = { ...cli.env, SANDGLASS_LISTEN: 'unix,nonsense' }
    const [code, message] = JSON.parse((await node(script, broken)).stdout)
    expect([code, message]).toEqual([
      'DAEMON_UNREACHABLE',
      expect.stringContaining('the daemon did not start: listen: nonsense is not host:port'),
    ])
  })

  it('a program that used a daemon starts it again after a crash, and not when somebody stopped it', async () => {
    await cli.run(['ls'])
    const client = connectLocal({ dataDir: cli.dataDir })
    await client.health()
    const { daemonPid } = cli
    process.kill(daemonPid, 'SIGKILL')
    await until(() => !isAlive(daemonPid))
    await client.health()
    expect(cli.daemonPid).not.toBe(daemonPid)
    await cli.run(['shutdown'])
    await expect(client.health()).rejects.toMatchObject({ code: 'DAEMON_UNREACHABLE' })
  })
})

/** A program of its own, with the SDK of this clone. */
const node = (script: string, env: Record<string, string>) =>
  run(process.execPath, ['--input-type=module', '-e', script], { env })
