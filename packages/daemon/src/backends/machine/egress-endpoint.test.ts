import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, lstatSync, mkdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'
import { temporaryFolder } from '../../testing/daemon.fixture.ts'
import { egressSocketFolder, egressUser, endpointForEgress, makeEgressSocketFolder, newEgressToken } from './egress-endpoint.ts'
import { isInitialMap, mappedIds } from './mapped-ids.ts'

const uidMap = readFileSync('/proc/self/uid_map', 'utf8')
/** A process that may change its user, which root in a container may not be able to do. */
const isRoot = egressUser('/data') !== null
const ordinary = '         0       1001          1\n         1     100000      65536\n'

describe('the user of the egress process', () => {
  it.runIf(isRoot && isInitialMap(uidMap))('is no session, no QEMU, and another one for each data folder', () => {
    const { uid, gid } = egressUser('/data') ?? { uid: 0, gid: 0 }
    expect([uid >= 0x0ff1_0000, uid < 0x1000_0000, gid]).toEqual([true, true, uid])
    expect(egressUser('/data')).toEqual({ uid, gid })
    expect(egressUser('/other')).not.toEqual({ uid, gid })
  })

  it('is the last mapped id of a user namespace, which no session gets', () => {
    expect(mappedIds(ordinary, ordinary)).toEqual({ first: 1, end: 65_536, egress: 65_536 })
    expect(mappedIds(ordinary, '0 1001 1\n1 100000 2048')).toEqual({ first: 1, end: 2048, egress: 2048 })
    expect(mappedIds('0 100000 65536', '0 100000 65536')).toEqual({ first: 1, end: 65_535, egress: 65_535 })
  })

  it('is the daemon’s own where nothing else is mapped', () => {
    expect(mappedIds('0 1001 1', '0 1001 1')).toEqual({ first: 1, end: 1, egress: null })
    expect(mappedIds(ordinary, '0 1001 1').egress).toBeNull()
    expect([isInitialMap('         0          0 4294967295\n'), isInitialMap(ordinary)]).toEqual([true, false])
  })
})

/** Prints the result of a few actions of the egress process in its working directory. */
const ACTIONS = `
import os, socket
def connect(path):
  s = socket.socket(socket.AF_UNIX); s.connect(path); return s.recv(2).decode()
for action in (lambda: connect("mine"), lambda: connect("others"), lambda: connect("../daemon.sock"), lambda: os.listdir("."),
               lambda: open("new", "w"), lambda: os.rename("mine", "moved"), lambda: connect(os.path.join(os.getcwd(), "mine"))):
  try: print(action())
  except OSError as e: print(type(e).__name__)
`

describe.runIf(isRoot)('the folder of the sockets', () => {
  it('lets the egress process connect to its sockets and to nothing else', async () => {
    const dataDir = join(await temporaryFolder(), 'data')
    mkdirSync(dataDir, { mode: 0o700 })
    const user = egressUser(dataDir) ?? { uid: 0, gid: 0 }
    const folder = await makeEgressSocketFolder(dataDir)
    await makeEgressSocketFolder(dataDir)
    expect(lstatSync(folder)).toMatchObject({ uid: 0, gid: user.gid, mode: 0o040_710 })
    expect(lstatSync(join(dataDir, 'run')).mode & 0o777).toBe(0o700)
    for (const [path, owner] of [
      [join(folder, 'mine'), user.uid],
      [join(folder, 'others'), user.uid - 1],
      [join(dataDir, 'run', 'daemon.sock'), user.uid],
    ] as const) {
      const server = createServer(connection => connection.end('ok')).listen(path)
      onTestFinished(() => void server.close())
      await once(server, 'listening')
      chmodSync(path, 0o600)
      chownSync(path, owner, owner)
    }
    const { stdout } = await promisify(execFile)('python3', ['-c', ACTIONS], { ...user, cwd: folder })
    expect(stdout).toBe(`ok\n${'PermissionError\n'.repeat(6)}`)
  })
})

it('the egress process gets the name of a socket in its working directory', () => {
  const path = join(egressSocketFolder('/data'), 'sess_1')
  expect(endpointForEgress('/data', { kind: 'carrier', path })).toEqual({ kind: 'carrier', path: 'sess_1' })
  expect(endpointForEgress('/data', { kind: 'socket', path: '/tmp/egress.sock' })).toEqual({
    kind: 'socket',
    path: '/tmp/egress.sock',
  })
  expect(endpointForEgress('/data', { kind: 'relay' })).toEqual({ kind: 'relay' })
})

it('every token is another one', () => {
  expect(newEgressToken()).toMatch(/^[\w-]{43}$/)
  expect(newEgressToken()).not.toBe(newEgressToken())
})
