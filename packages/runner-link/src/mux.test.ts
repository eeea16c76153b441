import { duplexPair } from 'node:stream'
import { crc32 } from 'node:zlib'
import { expect, it } from 'vitest'
import { openMux } from './mux.ts'
import { CREDIT, DATA, END, frameHeader, HEADER_BYTES, OPEN, RESET } from './mux-frames.ts'

/** A mux and the bytes its peer sees, with the peer played by hand. */
function fixture() {
  const [near, far] = duplexPair()
  let seen = Buffer.alloc(0)
  far.on('data', (chunk: Buffer) => {
    seen = Buffer.concat([seen, chunk])
  })
  far.on('error', () => undefined)
  let isClosed = false
  const mux = openMux(near, () => {
    isClosed = true
  })
  const frames = () => {
    const found: { kind: number; stream: number; payload: Buffer }[] = []
    for (let at = 0; at + HEADER_BYTES <= seen.length; ) {
      const [start, length] = [at + HEADER_BYTES, seen.readUInt32BE(at + 5)]
      const payload = seen.subarray(start, start + length)
      found.push({ kind: seen.readUInt8(at), stream: seen.readUInt32BE(at + 1), payload })
      at = start + length
    }
    return found
  }
  const send = (kind: number, stream: number, payload: Buffer = Buffer.alloc(0)) =>
    far.write(Buffer.concat([frameHeader(kind, stream, payload.length, crc32(payload)), payload]))
  return { mux, far, frames, send, isClosed: () => isClosed }
}

const credit = (bytes: number) => {
  const payload = Buffer.alloc(4)
  payload.writeUInt32BE(bytes)
  return payload
}
const until = (condition: () => boolean) => expect.poll(condition).toBe(true)
const dataBytes = (frames: { kind: number; payload: Buffer }[]) =>
  frames.filter(f => f.kind === DATA).reduce((n, f) => n + f.payload.length, 0)

it('opens streams with odd, growing numbers and carries bytes both ways', async () => {
  const { mux, frames, send } = fixture()
  const [first, second] = [mux.open(), mux.open()]
  first.write('one')
  second.end('two')
  await until(() => frames().length === 5)
  expect(frames().map(f => [f.kind, f.stream, f.payload.toString()])).toEqual([
    [OPEN, 1, ''],
    [OPEN, 3, ''],
    [DATA, 1, 'one'],
    [DATA, 3, 'two'],
    [END, 3, ''],
  ])
  send(DATA, 3, Buffer.from('answer'))
  send(END, 3)
  const got: Buffer[] = []
  for await (const chunk of second) got.push(chunk)
  expect(Buffer.concat(got).toString()).toBe('answer')
  first.destroy()
  await until(() => frames().at(-1)?.kind === RESET)
})

it('sends no more than the credit, and continues when more is granted', async () => {
  const { mux, frames, send } = fixture()
  const stream = mux.open()
  stream.write(Buffer.alloc(300_000))
  await until(() => dataBytes(frames()) === 262_144)
  expect(Math.max(...frames().map(f => f.payload.length))).toBeLessThanOrEqual(65_536)
  send(CREDIT, 1, credit(10_000))
  await until(() => dataBytes(frames()) === 272_144)
  send(CREDIT, 1, credit(1_000_000))
  await until(() => dataBytes(frames()) === 300_000)
  stream.destroy()
})

it('grants credit only as its reader consumes', async () => {
  const { mux, frames, send } = fixture()
  const stream = mux.open()
  for (let i = 0; i < 4; i++) send(DATA, 1, Buffer.alloc(65_536))
  await until(() => stream.readableLength === 262_144)
  expect(frames().some(f => f.kind === CREDIT)).toBe(false)
  stream.resume()
  await until(
    () =>
      frames()
        .filter(f => f.kind === CREDIT)
        .reduce((n, f) => n + f.payload.readUInt32BE(0), 0) === 262_144,
  )
  stream.destroy()
})

it('drops frames for a stream that it closed', async () => {
  const { mux, send, isClosed } = fixture()
  mux.open().destroy()
  const other = mux.open()
  send(DATA, 1, Buffer.from('late'))
  send(DATA, 3, Buffer.from('fine'))
  await until(() => other.readableLength === 4)
  expect(isClosed()).toBe(false)
  other.destroy()
})

it('a reset ends only its stream', async () => {
  const { mux, send, isClosed } = fixture()
  const stream = mux.open()
  const failure = new Promise<Error>(resolve => stream.once('error', resolve))
  send(RESET, 1)
  expect((await failure).message).toBe('stream reset')
  expect(isClosed()).toBe(false)
})

it.each([
  [
    'data past the credit',
    (f: ReturnType<typeof fixture>) => Array.from({ length: 5 }, () => f.send(DATA, 1, Buffer.alloc(65_536))),
  ],
  ['a frame that is too long', (f: ReturnType<typeof fixture>) => f.far.write(frameHeader(DATA, 1, 65_537, 0))],
  [
    'a payload that was changed',
    (f: ReturnType<typeof fixture>) => f.far.write(Buffer.concat([frameHeader(DATA, 1, 1, crc32('a')), Buffer.from('b')])),
  ],
  ['the word that it is over', (f: ReturnType<typeof fixture>) => f.send(RESET, 0)],
  ['an empty data frame', (f: ReturnType<typeof fixture>) => f.send(DATA, 1)],
  ['an unknown kind', (f: ReturnType<typeof fixture>) => f.send(9, 1)],
  ['a stream opened by the runner', (f: ReturnType<typeof fixture>) => f.send(OPEN, 2)],
  ['a stream that was never opened', (f: ReturnType<typeof fixture>) => f.send(DATA, 5, Buffer.from('x'))],
  ['credit without bound', (f: ReturnType<typeof fixture>) => f.send(CREDIT, 1, credit(0xffff_ffff))],
  ['data after the end', (f: ReturnType<typeof fixture>) => [f.send(END, 1), f.send(DATA, 1, Buffer.from('x'))]],
])('ends the carrier at %s', async (_, misbehave) => {
  const f = fixture()
  const stream = f.mux.open()
  stream.on('error', () => undefined)
  misbehave(f)
  await until(f.isClosed)
  expect(stream.destroyed).toBe(true)
})
