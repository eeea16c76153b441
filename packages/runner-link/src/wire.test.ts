import { duplexPair, Readable } from 'node:stream'
import { expect, it } from 'vitest'
import { RunnerStream } from './stream.ts'
import { MAX_BODY_BYTES, MAX_LINE_BYTES, MessageReader, ProtocolError } from './wire.ts'

const reading = (...chunks: (string | Buffer)[]) =>
  new MessageReader(
    Readable.from(
      chunks.map(c => Buffer.from(c)),
      { objectMode: false },
    ),
  )

it('reads messages whatever the pieces they arrive in', async () => {
  const wire = Buffer.from('{"type":"a","text":"ü"}\n{"type":"b","bytes":5}\nhello{"type":"c"}\n')
  for (let size = 1; size <= wire.length; size++) {
    const pieces = Array.from({ length: Math.ceil(wire.length / size) }, (_, i) => wire.subarray(i * size, (i + 1) * size))
    const reader = reading(...pieces)
    expect(await reader.next()).toEqual({ type: 'a', text: 'ü' })
    expect((await reader.next())?.type).toBe('b')
    expect((await reader.collect()).toString()).toBe('hello')
    expect((await reader.next())?.type).toBe('c')
    expect(await reader.next()).toBeNull()
  }
})

it('skips an unread body', async () => {
  const reader = reading('{"type":"a","bytes":5}\nhel', 'lo{"type":"b"}\n')
  await reader.next()
  expect((await reader.next())?.type).toBe('b')
})

it.each([
  ['not JSON', 'nonsense\n'],
  ['an array', '[1]\n'],
  ['no type', '{"id":"a"}\n'],
  ['a negative length', '{"type":"a","bytes":-1}\n'],
  ['a length that is no integer', '{"type":"a","bytes":1.5}\n'],
  ['a length past all integers', '{"type":"a","bytes":1e300}\n'],
  ['an end inside a line', '{"type":'],
])('closes at %s', async (_, text) => {
  const source = Readable.from([Buffer.from(text)], { objectMode: false })
  await expect(new MessageReader(source).next()).rejects.toThrow(ProtocolError)
  expect(source.destroyed).toBe(true)
})

it('closes at an endless line, with no more than the limit in memory', async () => {
  let sent = 0
  const flood = Readable.from(
    (function* () {
      for (;;) {
        sent += 65_536
        yield Buffer.alloc(65_536, 0x20)
      }
    })(),
    { objectMode: false },
  )
  await expect(new MessageReader(flood).next()).rejects.toThrow(ProtocolError)
  expect(sent).toBeLessThan(MAX_LINE_BYTES + 1024 * 1024)
})

it('does not collect a body that is larger than a shared connection allows', async () => {
  const reader = reading(`{"type":"a","bytes":${MAX_BODY_BYTES + 1}}\n`)
  await reader.next()
  await expect(reader.collect()).rejects.toThrow(ProtocolError)
})

it('fails when the connection ends inside a body', async () => {
  const reader = reading('{"type":"a","bytes":5}\nhel')
  await reader.next()
  await expect(reader.collect()).rejects.toThrow(ProtocolError)
})

it('hands over the connection without losing bytes', async () => {
  const [near, far] = duplexPair()
  far.write('{"type":"dial","ok":true}\nSSH-2.0')
  const reader = new MessageReader(near)
  expect((await reader.next())?.ok).toBe(true)
  reader.release()
  far.end('-more')
  const rest: Buffer[] = []
  for await (const chunk of near) rest.push(chunk)
  expect(Buffer.concat(rest).toString()).toBe('SSH-2.0-more')
})

it('waits while the runner reads nothing, and fails when the connection closes meanwhile', async () => {
  const [near, far] = duplexPair()
  const stream = new RunnerStream(
    { duplex: near, reader: new MessageReader(near) },
    { type: 'put' },
    () => new Error('runner lost'),
  )
  const sent = stream.send({ type: 'chunk' }, Buffer.alloc(1024 * 1024))
  expect(near.writableNeedDrain).toBe(true)
  far.resume()
  await sent
  far.pause()
  const never = stream.send({ type: 'chunk' }, Buffer.alloc(1024 * 1024))
  near.destroy()
  await expect(never).rejects.toThrow('runner lost')
})
