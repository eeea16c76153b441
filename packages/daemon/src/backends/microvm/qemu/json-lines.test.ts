import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { temporaryFolder } from '../../../testing/daemon.fixture.ts'
import { connectLines } from './json-lines.ts'

const MiB = 1024 * 1024
const signal = () => AbortSignal.timeout(20_000)

/** A guest that repeats `text` until it is disconnected or has sent `most` bytes. */
async function flood(text: string, most = Number.POSITIVE_INFINITY) {
  const path = join(await temporaryFolder(), 'flood')
  const [piece, sent] = [Buffer.from(text.repeat(65_536 / text.length)), { bytes: 0 }]
  const over = Promise.withResolvers<void>()
  const server = createServer({ allowHalfOpen: true }, socket => {
    socket.on('error', () => undefined).on('close', over.resolve)
    const send = () => {
      while (!socket.destroyed && sent.bytes < most) {
        sent.bytes += piece.length
        if (!socket.write(piece)) return
      }
      socket.end()
    }
    socket.on('drain', send)
    send()
  }).listen(path)
  onTestFinished(() => void server.close())
  return { lines: await connectLines(path), sent, over: over.promise }
}

it.each([
  ['in one line', 'x'],
  ['in many lines', '{"a":1}\n'],
])('a guest that sends too much unread data is disconnected: %s', async (_, text) => {
  const { lines, over } = await flood(text)
  await over
  await expect(lines.next(() => false, signal())).rejects.toThrow('the peer sent too much unread data')
})

it('data that arrives after finish() is discarded', async () => {
  const { lines, sent, over } = await flood('{"a":1}\n', 64 * MiB)
  lines.finish()
  await over
  expect(sent.bytes).toBe(64 * MiB)
  await expect(lines.next(() => true, signal())).rejects.toThrow('connection closed')
})

it('messages are found across packets, and invalid lines are skipped', async () => {
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
  await expect(lines.next(() => true, signal())).rejects.toThrow('connection closed')
})
