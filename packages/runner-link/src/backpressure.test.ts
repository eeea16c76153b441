import { connect, createServer, type Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { type ReadTimeout, writeDrained } from './backpressure.ts'

/** Both ends of a real connection. */
async function pair(): Promise<{ near: Socket; far: Socket }> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
  const { port } = server.address() as { port: number }
  const accepted = new Promise<Socket>(resolve => server.once('connection', resolve))
  const far = connect(port, '127.0.0.1')
  far.pause()
  const near = await accepted
  onTestFinished(() => {
    near.destroy()
    far.destroy()
    server.close()
  })
  return { near, far }
}
const CHUNK = Buffer.alloc(1_000_000)
const within = (ms: number): ReadTimeout => ({ ms, error: () => new Error('too slow') })

it('waits while the reader is full and goes on when it reads', async () => {
  const { near, far } = await pair()
  let waiting: Promise<void> | undefined
  while (waiting === undefined) waiting = writeDrained(near, CHUNK, within(10_000))
  far.resume()
  await waiting
})

it('gives up on a reader that takes nothing for too long', async () => {
  const { near } = await pair()
  await expect(
    (async () => {
      for (let i = 0; i < 100; i++) await writeDrained(near, CHUNK, within(100))
    })(),
  ).rejects.toThrow('too slow')
})

it('does not wait for a reader that is gone', async () => {
  const { near, far } = await pair()
  near.on('error', () => undefined)
  const filling = (async () => {
    while (!near.destroyed) await writeDrained(near, CHUNK, within(10_000))
  })()
  far.destroy()
  await filling
})
