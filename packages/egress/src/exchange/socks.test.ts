import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { duplexPair } from 'node:stream'
import { promisify } from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'
import { acceptSocks, readSocksTarget } from './socks.ts'

const bytes = (...parts: (number | string)[]) =>
  Buffer.concat(parts.map(part => (typeof part === 'string' ? Buffer.from(part, 'latin1') : Buffer.from([part]))))

async function targetOf(sent: Buffer, chunk = sent.length) {
  const [ours, theirs] = duplexPair()
  const target = readSocksTarget(ours)
  for (let at = 0; at < sent.length; at += chunk) theirs.write(sent.subarray(at, at + chunk))
  theirs.end()
  return await target
}

const GREETING = bytes(5, 1, 0)
const toName = (name: string) => bytes(5, 1, 0, 3, name.length, name, 1, 187)

describe('a SOCKS5 request', () => {
  it.each([1, 2, 3, 100])('for a name is read in segments of %i bytes', async chunk => {
    expect(await targetOf(Buffer.concat([GREETING, toName('example.com')]), chunk)).toEqual({ host: 'example.com', port: 443 })
  })

  it('for an address gives the address', async () => {
    expect(await targetOf(Buffer.concat([GREETING, bytes(5, 1, 0, 1, 10, 0, 0, 1, 0, 80)]))).toEqual({
      host: '10.0.0.1',
      port: 80,
    })
    const ipv6 = bytes(5, 1, 0, 4, ...Array.from({ length: 15 }, () => 0), 1, 0, 80)
    expect(await targetOf(Buffer.concat([GREETING, ipv6]))).toEqual({ host: '0:0:0:0:0:0:0:1', port: 80 })
  })

  it('keeps a NUL in a name, so that the check of the name sees it', async () => {
    expect((await targetOf(Buffer.concat([GREETING, toName('evil\0.example.com')])))?.host).toBe('evil\0.example.com')
  })

  it.each([
    ['for another version', bytes(4, 1, 0)],
    ['that ends early', bytes(5, 1)],
    ['without the method of no authentication', bytes(5, 1, 2)],
    ['to bind', Buffer.concat([GREETING, bytes(5, 2, 0, 1, 1, 2, 3, 4, 0, 80)])],
    ['with an unknown kind of address', Buffer.concat([GREETING, bytes(5, 1, 0, 9, 1)])],
  ])('%s is refused', async (_, sent) => {
    expect(await targetOf(sent)).toBeNull()
  })

  it('that stops after its first byte leaves the process free, and is closed in the end', async () => {
    const [ours, theirs] = duplexPair()
    const target = readSocksTarget(ours)
    theirs.write(bytes(5))
    // A timer can run only if nothing occupies the event loop.
    await new Promise(resolve => setImmediate(() => setImmediate(resolve)))
    theirs.end()
    expect(await target).toBeNull()
    expect(ours.destroyed).toBe(true)
  })

  it('of curl works', async () => {
    const server = createServer(socket => void serve(socket))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    const { stdout } = await promisify(execFile)('curl', ['-s', '--socks5-hostname', `127.0.0.1:${port}`, 'http://some.name/'])
    expect(stdout).toBe('some.name:80')
  })
})

async function serve(socket: Socket): Promise<void> {
  const target = await readSocksTarget(socket)
  acceptSocks(socket)
  const body = `${target?.host}:${target?.port}`
  socket.end(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`)
  socket.resume()
}
