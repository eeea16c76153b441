import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { type ConnectionOptions, connect } from 'node:tls'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { MAX_HELLO_BYTES, peekClientHello } from './client-hello.ts'

/** The first bytes that node's TLS client sends. */
async function captureHello(options: ConnectionOptions): Promise<Buffer> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect({ ...options, host: '127.0.0.1', port: (server.address() as AddressInfo).port })
  client.on('error', () => undefined)
  const [socket] = (await once(server, 'connection')) as [Socket]
  const [bytes] = (await once(socket, 'data')) as [Buffer]
  client.destroy()
  socket.destroy()
  server.close()
  return bytes
}

const hello = await captureHello({ servername: 'example.com', ALPNProtocols: ['h2', 'http/1.1'] })
const expected = { kind: 'hello', serverName: 'example.com', alpn: ['h2', 'http/1.1'], hasEch: false }

test('the name and the protocols of a ClientHello are found', () => {
  expect(peekClientHello(hello)).toEqual(expected)
})

test('a client that names no server is reported so', async () => {
  const bytes = await captureHello({ maxVersion: 'TLSv1.2' })
  expect(peekClientHello(bytes)).toEqual({ kind: 'hello', serverName: null, alpn: [], hasEch: false })
})

test('a ClientHello is incomplete at every length but the last', () => {
  for (let length = 0; length < hello.length; length += 1) {
    expect(peekClientHello(hello.subarray(0, length)), `first ${length} bytes`).toEqual({ kind: 'incomplete' })
  }
})

/** The same message in records of other sizes. */
function inRecords(bytes: Buffer, sizes: number[]): Buffer {
  const parts: Buffer[] = []
  let rest = bytes.subarray(5)
  for (const size of sizes) {
    const part = rest.subarray(0, size)
    if (part.length === 0) break
    parts.push(Buffer.from([22, 3, 1, part.length >> 8, part.length & 0xff]), part)
    rest = rest.subarray(size)
  }
  return Buffer.concat(parts)
}

test('a ClientHello in many TLS records is the same', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 64 }), { minLength: 1 }), sizes => {
      const all = [...sizes, ...Array.from({ length: hello.length }, () => 100)]
      expect(peekClientHello(inRecords(hello, all))).toEqual(expected)
    }),
  )
  expect(
    peekClientHello(
      inRecords(
        hello,
        Array.from({ length: hello.length }, () => 1),
      ),
    ),
  ).toEqual(expected)
})

test('bytes after the ClientHello are ignored', () => {
  expect(peekClientHello(Buffer.concat([hello, Buffer.from([22, 3, 3, 0, 1, 99])]))).toEqual(expected)
})

test('other protocols are not TLS', () => {
  for (const text of [
    'GET / HTTP/1.1\r\n',
    'SSH-2.0-OpenSSH',
    '\x80\x2e\x01\x03',
    '\x16\x02\x01',
    '\x16\x03\x01\x00\x00',
    '\x15\x03\x01\x00\x02',
  ]) {
    expect(peekClientHello(Buffer.from(text, 'latin1')), text).toEqual({ kind: 'not-tls' })
  }
})

test('a message that announces more than the limit is refused before it arrives', () => {
  expect(peekClientHello(Buffer.from([22, 3, 1, 0x3f, 0xff, 1, 1, 0, 0]))).toEqual({ kind: 'not-tls' })
  const endless = Buffer.concat([Buffer.from([22, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfc]), Buffer.alloc(MAX_HELLO_BYTES)])
  expect(peekClientHello(endless).kind).toBe('not-tls')
})

/** Adds an extension to a ClientHello, and corrects the lengths around it. */
function withExtension(bytes: Buffer, type: number, body: Buffer): Buffer {
  const extension = Buffer.concat([Buffer.from([type >> 8, type & 0xff, body.length >> 8, body.length & 0xff]), body])
  const changed = Buffer.concat([bytes, extension])
  const grow = (at: number, size: number) => changed.writeUIntBE(changed.readUIntBE(at, size) + extension.length, at, size)
  grow(3, 2)
  grow(6, 3)
  const session = 5 + 4 + 34
  const ciphers = session + 1 + (bytes[session] ?? 0)
  const compression = ciphers + 2 + bytes.readUInt16BE(ciphers)
  grow(compression + 1 + (bytes[compression] ?? 0), 2)
  return changed
}

test('an encrypted ClientHello is reported, with the outer name', () => {
  expect(peekClientHello(withExtension(hello, 0xfe0d, Buffer.alloc(40)))).toEqual({ ...expected, hasEch: true })
})

test('a second server name is refused', () => {
  const body = Buffer.from('\x00\x0b\x00\x00\x08evil.com', 'latin1')
  expect(peekClientHello(withExtension(hello, 0, body))).toEqual({ kind: 'not-tls' })
})

test('no bytes make it throw', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), noise => {
      const bytes = Buffer.from(noise)
      peekClientHello(bytes)
      peekClientHello(Buffer.concat([Buffer.from([22, 3, 1, 1, 0, 1, 0, 0, 0xfc]), bytes]))
    }),
  )
  fc.assert(
    fc.property(fc.integer({ min: 0, max: hello.length - 1 }), fc.integer({ min: 0, max: 255 }), (at, value) => {
      const bytes = Buffer.from(hello)
      bytes[at] = value
      peekClientHello(bytes)
    }),
  )
})
