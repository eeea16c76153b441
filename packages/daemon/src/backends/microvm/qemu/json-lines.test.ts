import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { temporaryFolder } from '../../../testing/daemon.fixture.ts'
import { connectLines } from './json-lines.ts'

const MiB = 1024 * 1024
const signal = () => AbortSignal.timeout(20_000)

/** A machine that says the same until it is cut off, or has said `most` bytes and ends. */
async function flood(text: string, most = Number.POSITIVE_INFINITY) {
  const path = join(await temporaryFolder(), 'flood')
  const [piece, said] = [Buffer.from(text.repeat(65_536 / text.length)), { bytes: 0 }]
  const over = Promise.withResolvers<void>()
  const server = createServer({ allowHalfOpen: true }, socket => {
    socket.on('error', () => undefined).on('close', over.resolve)
    const speak = () => {
      while (!socket.destroyed && said.bytes < most) {
        said.bytes += piece.length
        if (!socket.write(piece)) return
      }
      socket.end()
    }
    socket.on('drain', speak)
    speak()
  }).listen(path)
  onTestFinished(() => void server.close())
  return { lines: await connectLines(path), said, over: over.promise }
}

it.each([
  ['in one line', 'x'],
  ['in many', '{"a":1}\n'],
])('a machine that says more than anybody takes is cut off: %s', async (_, text) => {
  const { lines, over } = await flood(text)
  await over
  await expect(lines.next(() => false, signal())).rejects.toThrow('the other side says too much')
})

it('what a machine says when nobody listens any more is not kept', async () => {
  const { lines, said, over } = await flood('{"a":1}\n', 64 * MiB)
  lines.finish()
  await over
  expect(said.bytes).toBe(64 * MiB)
  await expect(lines.next(() => true, signal())).rejects.toThrow('the connection was closed')
})

it('messages are found wherever their lines are cut, and what is none is passed over', async () => {
  const path = join(await temporaryFolder(), 'lines')
  const server = createServer().listen(path)
  onTestFinished(() => void server.close())
  const accepted = once(server, 'connection') as Promise<[Socket]>
  const lines = await connectLines(path)
  const [machine] = await accepted
  machine.write('\nnoise\n{"n":1}\n{"n"')
  expect(await lines.next(() => true, signal())).toEqual({ n: 1 })
  machine.end(':2}\n[]\n{"n":3}\n')
  expect(await lines.next(({ n }) => n === 2, signal())).toEqual({ n: 2 })
  expect(await lines.next(({ n }) => n === 3, signal())).toEqual({ n: 3 })
  await expect(lines.next(() => true, signal())).rejects.toThrow('the connection was closed')
})
