// Machines that are connected to a bridge of the host.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { boxOf, specOf } from '../conformance/subject.ts'
import { openMicrovm } from './backend.ts'
import { removeTestMicrovm, testMicrovm } from './microvm.fixture.ts'

const BRIDGE = `sgtest${process.pid % 100_000}`
const options = await testMicrovm({ bridge: BRIDGE })
const subject = { allowUnenforced: [], patience: 4 }

/** A DHCP server that gives the address 10.99.7.2, on one interface. */
const SERVER = [
  'import socket, sys',
  's = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)',
  's.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)',
  's.setsockopt(socket.SOL_SOCKET, 25, sys.argv[1].encode() + b"\\0")',
  's.bind(("", 67))',
  'print("ready", flush=True)',
  'ip = lambda text: socket.inet_aton(text)',
  'while True:',
  '  m, _ = s.recvfrom(2048)',
  '  kind = m[m.index(b"\\x35\\x01") + 2]',
  '  answer = b"\\x02" + m[1:16] + ip("10.99.7.2") + m[20:236] + bytes([99, 130, 83, 99, 53, 1, 2 if kind == 1 else 5])',
  '  answer += b"\\x36\\x04" + ip("10.99.7.1") + b"\\x01\\x04" + ip("255.255.255.0") + b"\\x03\\x04" + ip("10.99.7.1") + b"\\x06\\x04" + ip("10.99.7.1") + b"\\xff"',
  '  s.sendto(answer, ("255.255.255.255", 68))',
].join('\n')

let server: ChildProcess | undefined
beforeAll(async () => {
  execFileSync('ip', ['link', 'add', BRIDGE, 'type', 'bridge'])
  execFileSync('ip', ['address', 'add', '10.99.7.1/24', 'dev', BRIDGE])
  execFileSync('ip', ['link', 'set', BRIDGE, 'up'])
  server = spawn('python3', ['-c', SERVER, BRIDGE], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(server.stdout ?? process.stdout, 'data')
})
afterAll(async () => {
  server?.kill()
  execFileSync('ip', ['link', 'delete', BRIDGE])
  await removeTestMicrovm(options)
})

describe('a bridge', () => {
  it('connects a machine to its network, until the machine ends', { timeout: 120_000 }, async () => {
    const spec = specOf(subject, { network: 'bridge' })
    const machine = await openMicrovm(options).start(spec, AbortSignal.timeout(90_000))
    const box = boxOf(machine, spec, subject)
    const ports = () => execFileSync('ls', [`/sys/class/net/${BRIDGE}/brif`], { encoding: 'utf8' }).trim()
    try {
      expect((await box.run('cat /etc/resolv.conf; cat /proc/net/route | wc -l')).output).toBe('nameserver 10.99.7.1\n3')
      const ping = 'import socket; s = socket.create_connection(("10.99.7.1", 1)); '
      expect((await box.run(`python3 -c '${ping}' 2>&1 | tail -1`)).output).toContain('Connection refused')
      expect(ports()).not.toBe('')
    } finally {
      box.link.close()
      await machine.destroy()
    }
    expect(ports()).toBe('')
  })

  it('is refused if none is configured, or if it does not exist', { timeout: 60_000 }, async () => {
    for (const bridge of [null, 'no-such-bridge'])
      await expect(
        openMicrovm({ ...options, bridge }).start(specOf(subject, { network: 'bridge' }), AbortSignal.timeout(50_000)),
      ).rejects.toMatchObject({ code: 'UNSUPPORTED' })
  })
})
