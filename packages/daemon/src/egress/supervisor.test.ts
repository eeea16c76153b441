import { readFileSync } from 'node:fs'
import { mkdir, readFile, readlink, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { egressSocketFolder, egressUser } from '../backends/machine/egress-endpoint.ts'
import { createLogger } from '../log.ts'
import { temporaryFolder, until } from '../testing/daemon.fixture.ts'
import { Authorities } from './authorities.ts'
import { checkEgress } from './check.ts'
import type { Control } from './control.ts'
import { controlSocket, makeEgressFolders, makeLogFolder } from './folders.ts'
import { killProcess } from './start-process.ts'
import { EgressSupervisor } from './supervisor.ts'

async function dataDirFixture(): Promise<string> {
  const dataDir = await temporaryFolder()
  onTestFinished(() => killProcess(dataDir))
  return dataDir
}

function supervisorFixture(dataDir: string, { isNeeded = () => false }: { isNeeded?: () => boolean } = {}) {
  const authorities = new Authorities(dataDir, Date.now)
  const connected: Control[] = []
  const logged: string[] = []
  const settings = async () => ({
    authorities: await authorities.all(),
    extraRoots: [],
    overrides: {},
    upstreamProxy: null,
    approvalSeconds: 60,
    logBytes: 65_536,
  })
  const supervisor = new EgressSupervisor({
    dataDir,
    log: createLogger('debug', { write: line => void logged.push(JSON.parse(line).msg) }),
    settings,
    isNeeded,
    onConnected: async control => void connected.push(control),
    onEvent: () => undefined,
  })
  onTestFinished(() => supervisor.close())
  return { supervisor, authorities, connected, logged }
}

const isRunning = (pid: number) => {
  try {
    // A process that has ended stays a zombie until its parent has seen it.
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
  } catch {
    return false // gone
  }
}

describe('the egress process', () => {
  it('is started when it is needed, once, and the next daemon finds it', async () => {
    const dataDir = await dataDirFixture()
    const first = supervisorFixture(dataDir, { isNeeded: () => true })
    const [one, two] = await Promise.all([first.supervisor.ensure(), first.supervisor.ensure()])
    expect(one).toBe(two)
    expect(first.connected).toEqual([one])
    expect(await checkEgress(dataDir)).toEqual({ ok: true, detail: `pid ${one.hello.pid}, sessions: 0` })
    await first.supervisor.close()
    expect(isRunning(one.hello.pid)).toBe(true)
    const next = supervisorFixture(dataDir)
    await next.supervisor.recover()
    await until(() => next.connected.length > 0)
    expect(next.connected[0]?.hello.pid).toBe(one.hello.pid)
    await next.supervisor.close()
    await until(() => !isRunning(one.hello.pid))
    expect(await checkEgress(dataDir)).toBeNull()
  })

  it('has nothing of the environment, no core dumps, no inspector and no rights', async () => {
    const dataDir = await dataDirFixture()
    const { hello } = await supervisorFixture(dataDir).supervisor.ensure()
    const of = (name: string) => readFile(`/proc/${hello.pid}/${name}`, 'utf8')
    const names = (await of('environ')).split('\0').map(text => text.split('=')[0])
    // dash sets PWD.
    expect(names.filter(name => name !== '' && name !== 'PWD').sort()).toEqual(['LANG', 'PATH', 'TZ', 'UV_THREADPOOL_SIZE'])
    expect(await of('limits')).toMatch(/^Max core file size\s+0\s+0\s/m)
    expect(await readlink(`/proc/${hello.pid}/cwd`)).toBe(egressSocketFolder(dataDir))
    const user = egressUser(dataDir)
    const uid = user?.uid ?? process.getuid?.()
    expect(await of('status')).toMatch(new RegExp(`^Uid:\\s+${uid}\\s+${uid}\\s+${uid}\\s+${uid}$`, 'm'))
    if (user !== null) expect(await of('status')).toMatch(/^CapEff:\s+0+$/m)
    // Without --disable-sigusr1, Node catches the signal and opens a port.
    const caught = BigInt(`0x${/^SigCgt:\s+([0-9a-f]+)$/m.exec(await of('status'))?.[1]}`)
    expect(caught & (1n << 9n)).toBe(0n)
    expect((await stat(controlSocket(dataDir))).mode & 0o777).toBe(0o600)
  })

  it('is started again at once when it was killed, and gets the settings and sessions again', async () => {
    const dataDir = await dataDirFixture()
    const { supervisor, connected } = supervisorFixture(dataDir, { isNeeded: () => true })
    const { hello } = await supervisor.ensure()
    process.kill(hello.pid, 'SIGKILL')
    const again = await until(() => connected[1])
    expect(again.hello.pid).not.toBe(hello.pid)
    expect(await supervisor.ensure()).toBe(again)
    await supervisor.reconfigure()
  })

  it('is not started again while no session needs it', async () => {
    const dataDir = await dataDirFixture()
    const { supervisor, connected } = supervisorFixture(dataDir)
    const { hello } = await supervisor.ensure()
    process.kill(hello.pid, 'SIGKILL')
    await until(() => !supervisor.isConnected)
    expect(await supervisor.metrics()).toBeNull()
    expect((await supervisor.ensure()).hello.pid).not.toBe(hello.pid)
    expect(connected).toHaveLength(2)
  })

  it('that does not answer is replaced', { timeout: 60_000 }, async () => {
    const dataDir = await dataDirFixture()
    const first = supervisorFixture(dataDir, { isNeeded: () => true })
    const { hello } = await first.supervisor.ensure()
    await first.supervisor.close()
    process.kill(hello.pid, 'SIGSTOP')
    const next = supervisorFixture(dataDir)
    expect((await next.supervisor.ensure()).hello.pid).not.toBe(hello.pid)
    expect(isRunning(hello.pid)).toBe(false)
  })

  it('that hangs is replaced when a session cannot be sent to it', { timeout: 60_000 }, async () => {
    const dataDir = await dataDirFixture()
    const { supervisor, authorities, connected } = supervisorFixture(dataDir, { isNeeded: () => true })
    const { hello } = await supervisor.ensure()
    const { fingerprint } = await authorities.current()
    process.kill(hello.pid, 'SIGSTOP')
    const session = {
      ...{ id: 'sess_x', name: 'x', endpoint: { kind: 'relay' as const }, token: 't', network: 'nat' as const, mode: null },
      ...{ policies: [], secrets: [], ca: fingerprint, logFolder: 'log/sess_x' },
    }
    await makeLogFolder(dataDir, 'sess_x')
    supervisor.putSession(session).catch(() => undefined) // no runner is there
    const next = await until(() => connected[1], 30_000)
    expect([next.hello.pid === hello.pid, isRunning(hello.pid)]).toEqual([false, false])
    await until(async () => (await next.request('list_sessions', {})).sessions.some(({ id }) => id === 'sess_x'))
  })

  it('of another version is replaced', async () => {
    const dataDir = await dataDirFixture()
    await makeEgressFolders(dataDir)
    const old = createServer(socket => {
      socket.on('data', data => {
        const { id, type } = JSON.parse(data.toString())
        if (type === 'shutdown') old.close()
        socket.write(`${JSON.stringify({ id, version: 999, pid: 1, held: [] })}\n`)
      })
    })
    await new Promise<void>(resolve => old.listen(controlSocket(dataDir), resolve))
    const { supervisor } = supervisorFixture(dataDir)
    expect((await supervisor.ensure()).hello).toMatchObject({ version: 1 })
    expect(old.listening).toBe(false)
  })

  it('whose socket was left by a killed one is started anew', async () => {
    const dataDir = await dataDirFixture()
    await makeEgressFolders(dataDir)
    await writeFile(controlSocket(dataDir), '')
    const { supervisor, connected } = supervisorFixture(dataDir)
    await supervisor.recover()
    expect([supervisor.isConnected, connected.length]).toEqual([false, 0])
    expect((await supervisor.ensure()).hello.pid).toBeGreaterThan(0)
  })

  it('that cannot be started fails with EGRESS_UNAVAILABLE', async () => {
    const dataDir = await dataDirFixture()
    await makeEgressFolders(dataDir)
    // A folder in the place of the socket.
    await mkdir(controlSocket(dataDir))
    const { supervisor } = supervisorFixture(dataDir)
    await expect(supervisor.ensure()).rejects.toMatchObject({ code: 'EGRESS_UNAVAILABLE' })
    expect(await readFile(join(dataDir, 'egress.log'), 'utf8')).not.toBe('')
  })
})
