import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { RunnerSocket } from './runner-socket.ts'

const CONTENT = randomBytes(8_000_000)

/** Both ends of a real connection. */
async function pair(): Promise<{ near: RunnerSocket; far: Socket }> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const accepted = once(server, 'connection')
  const near = new RunnerSocket().connect(server.address() as { port: number })
  const [far] = (await accepted) as [Socket]
  onTestFinished(() => {
    near.destroy()
    far.destroy()
    server.close()
  })
  return { near, far }
}

it('does not reuse a buffer before it is returned', async () => {
  const { near, far } = await pair()
  far.end(CONTENT)
  expect(Buffer.concat(await near.toArray()).equals(CONTENT)).toBe(true)
})

it('reads into returned buffers', async () => {
  const { near, far } = await pair()
  far.end(CONTENT)
  const buffers = new Set<ArrayBufferLike>()
  const copies: Buffer[] = []
  for await (const chunk of near) {
    copies.push(Buffer.from(chunk))
    if (chunk.buffer.byteLength > 100_000) buffers.add(chunk.buffer)
    near.recycle(chunk)
    near.recycle(chunk)
  }
  expect(Buffer.concat(copies).equals(CONTENT)).toBe(true)
  expect(buffers.size).toBeLessThan(8)
})

it('does not reuse a buffer of which only the first part was returned', async () => {
  const { near, far } = await pair()
  far.end(CONTENT)
  const chunks: Buffer[] = []
  for await (const chunk of near) {
    near.recycle(chunk.subarray(0, chunk.length - 1))
    chunks.push(chunk)
  }
  expect(Buffer.concat(chunks).equals(CONTENT)).toBe(true)
})

it('stops reading while its reader takes nothing', async () => {
  const { near, far } = await pair()
  while (far.write(Buffer.alloc(1_000_000))) await new Promise(setImmediate)
  await expect.poll(() => far.writableLength).toBeGreaterThan(0)
  expect(near.readableLength).toBeLessThan(1_000_000)
})
