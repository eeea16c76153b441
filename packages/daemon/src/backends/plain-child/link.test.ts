import { randomBytes } from 'node:crypto'
import { createServer } from 'node:net'
import { type Duplex, duplexPair, Readable } from 'node:stream'
import { SandglassError } from '@sandglass/contract/tables'
import type { RunnerLink } from '@sandglass/runner-link/link'
import { openLink } from '@sandglass/runner-link/link'
import { describe, expect, it, onTestFinished } from 'vitest'
import { deviceFixture } from './device.fixture.ts'
import { plainChildFixture, specFixture } from './plain-child.fixture.ts'

const ID = 'sess_abcdefghijklmnop'

interface Fixture {
  link: RunnerLink
  kill: () => Promise<void>
}

async function overDials(): Promise<Fixture> {
  return await overSocket(false)
}

async function overConnection(): Promise<Fixture> {
  return await overSocket(true)
}

async function overSocket(mux: boolean): Promise<Fixture> {
  const { backend } = await plainChildFixture()
  const machine = await backend.start(specFixture(ID), AbortSignal.timeout(10_000))
  const link = openLink({ id: ID, dial: () => machine.dial(), token: machine.token, mux })
  onTestFinished(() => link.close())
  return { link, kill: () => machine.stop() }
}

async function overDevice(): Promise<Fixture> {
  const { dial, token, kill } = await deviceFixture()
  const link = openLink({ id: ID, dial, token, mux: true })
  onTestFinished(() => link.close())
  return { link, kill }
}

async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise
  } catch (error) {
    if (error instanceof SandglassError) return error.code
    throw error
  }
  return 'no error'
}

async function collect(source: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of source) chunks.push(chunk)
  return Buffer.concat(chunks)
}

async function* pieces(content: Buffer, size: number) {
  for (let at = 0; at < content.length; at += size) yield content.subarray(at, at + size)
}

describe.each([
  ['on connections of their own', overDials],
  ['on one multiplexed connection', overConnection],
  ['on a device', overDevice],
])('requests %s', (_, open) => {
  it('answers many requests at once, each with its own reply', async () => {
    const { link } = await open()
    expect(link.bootId).toBeNull()
    const contents = Array.from({ length: 50 }, (_, i) => Buffer.from(`content ${i}`))
    await Promise.all(contents.map((body, i) => link.request('write', { path: `f${i}` }, { body })))
    const read = await Promise.all(contents.map((_, i) => link.request('read', { path: `f${i}` })))
    expect(read.map(r => r.body.toString())).toEqual(contents.map(String))
    expect(link.bootId).toMatch(/^[0-9a-f]{32}$/)
  })

  it('turns an error reply into the error of the table', async () => {
    const { link } = await open()
    expect(await codeOf(link.request('read', { path: 'missing' }))).toBe('FILE_NOT_FOUND')
    expect(await codeOf(link.request('read', { path: '../../../etc/passwd' }))).toBe('PATH_OUTSIDE_WORKSPACE')
    expect(await codeOf(link.stream('file.get', { path: 'missing' }))).toBe('FILE_NOT_FOUND')
    expect(await codeOf(link.request('no such type'))).toBe('INVALID_REQUEST')
  })

  it('carries large bodies both ways, unchanged', async () => {
    const { link } = await open()
    const content = randomBytes(5_000_000)
    await link.request('write', { path: 'big' }, { body: content })
    const { message, body } = await link.request('read', { path: 'big', max_bytes: 10_000_000 })
    expect(message).toMatchObject({ size: content.length, truncated: false })
    expect(body.equals(content)).toBe(true)
  })

  it('uploads files of known and unknown length, and downloads ranges', async () => {
    const { link } = await open()
    const content = randomBytes(3_000_001)
    for (const length of [content.length, undefined]) {
      const put = await link.stream('file.put', { path: 'dir/streamed' })
      const done = await put.upload(Readable.from(pieces(content, 70_000)), length)
      expect(done).toMatchObject({ type: 'done', size: content.length })
      put.close()
    }
    const get = await link.stream('file.get', { path: 'dir/streamed', offset: 1000, length: 2_000_000 })
    expect(get.reply.bytes).toBe(2_000_000)
    expect((await collect(get.replyBody())).equals(content.subarray(1000, 2_001_000))).toBe(true)
    get.close()
  })

  it('keeps the old file when an upload is cut off', async () => {
    const { link } = await open()
    await link.request('write', { path: 'kept' }, { body: Buffer.from('old') })
    const put = await link.stream('file.put', { path: 'kept' })
    await put.send({ type: 'chunk' }, Buffer.from('new'))
    put.close()
    await expect.poll(async () => JSON.parse(String((await link.request('fs.list', { path: '.' })).body)).length).toBe(1)
    expect(String((await link.request('read', { path: 'kept' })).body)).toBe('old')
  })

  it('refuses a body that is shorter or longer than announced', async () => {
    const { link } = await open()
    for (const length of [5, 500]) {
      const put = await link.stream('file.put', { path: 'wrong' })
      expect(await codeOf(put.upload(Readable.from(pieces(Buffer.alloc(100), 10)), length))).toBe('INVALID_REQUEST')
    }
    expect(await codeOf(link.request('fs.stat', { path: 'wrong' }))).toBe('FILE_NOT_FOUND')
  })

  it('gets the refusal of an upload while it is still sending', async () => {
    const { link } = await open()
    const put = await link.stream('archive.put', { path: 'unpacked' })
    const endless = (async function* () {
      for (;;) yield Buffer.alloc(65_536, 0x61)
    })()
    expect(await codeOf(put.upload(Readable.from(endless)))).toBe('INVALID_REQUEST')
  })

  it('gets the refusal of an upload while its source hangs', async () => {
    const { link } = await open()
    const put = await link.stream('archive.put', { path: 'unpacked' })
    const hanging = (async function* () {
      yield Buffer.alloc(65_536, 0x61)
      await new Promise(() => undefined)
    })()
    expect(await codeOf(put.upload(Readable.from(hanging)))).toBe('INVALID_REQUEST')
  })

  it('ends a request when its signal aborts, and keeps the connection', async () => {
    const { link } = await open()
    const abort = new AbortController()
    const slow = link.request('exec', { cmd: 'read -t 3 x', timeout_ms: 5000 }, { signal: abort.signal })
    abort.abort(new Error('enough'))
    await expect(slow).rejects.toThrow('enough')
    expect((await link.request('ping')).message.ok).toBe(true)
  })

  it('ends a stream when its signal aborts', async () => {
    const { link } = await open()
    const abort = new AbortController()
    const watch = await link.stream('fs.watch', { path: '.' }, { signal: abort.signal })
    const next = watch.next()
    abort.abort(new Error('enough'))
    await expect(next).rejects.toThrow('enough')
  })

  it('an unread stream does not block requests', async () => {
    const { link } = await open()
    await link.request('write', { path: 'big' }, { body: Buffer.alloc(20_000_000) })
    const get = await link.stream('file.get', { path: 'big' })
    expect((await link.request('ping')).message.ok).toBe(true)
    expect((await collect(get.replyBody())).length).toBe(20_000_000)
    get.close()
  })

  it('dials a port as a plain duplex', async () => {
    const { link } = await open()
    const server = createServer({ allowHalfOpen: true }, socket => socket.pipe(socket)).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await new Promise(resolve => server.once('listening', resolve))
    const address = server.address()
    if (typeof address !== 'object' || address === null) throw new Error('no port')
    const duplex = (await link.stream('dial', { port: address.port })).raw()
    duplex.end('there and back')
    expect((await collect(duplex)).toString()).toBe('there and back')
    expect(await codeOf(link.stream('dial', { port: 1 }))).toBe('PORT_CLOSED')
  })

  it('rejects pending requests with RUNNER_LOST and calls onLost when the runner dies', async () => {
    const { link, kill } = await open()
    await link.connect()
    const lost = new Promise<SandglassError>(resolve => link.onLost(resolve))
    const inFlight = codeOf(link.request('exec', { cmd: 'sleep 5', timeout_ms: 10_000 }))
    const watch = await link.stream('fs.watch', { path: '.' })
    const streaming = codeOf(
      watch.next().then(message => message ?? Promise.reject(new SandglassError('RUNNER_LOST', { id: ID }))),
    )
    await kill()
    expect(await inFlight).toBe('RUNNER_LOST')
    expect(await streaming).toBe('RUNNER_LOST')
    expect((await lost).detail).toEqual({ id: ID })
    expect(await codeOf(link.request('ping'))).toBe('RUNNER_LOST')
  })
})

it('resolves with the ready line of the runner: its boot id, version and pid', async () => {
  const { link } = await overDials()
  expect(link.bootId).toBeNull()
  const ready = await link.connect()
  expect(ready).toEqual({ bootId: expect.stringMatching(/.{16}/), runner: expect.stringMatching(/./), pid: expect.any(Number) })
  expect(link.bootId).toBe(ready.bootId)
})

it('dials again after the connection broke', async () => {
  const { backend } = await plainChildFixture()
  const machine = await backend.start(specFixture(ID), AbortSignal.timeout(10_000))
  const dialled: Duplex[] = []
  const dial = async () => {
    const duplex = await machine.dial()
    dialled.push(duplex)
    return duplex
  }
  const link = openLink({ id: ID, dial, token: machine.token })
  onTestFinished(() => link.close())
  const { bootId } = await link.connect()
  dialled[0]?.destroy()
  const lost = new Promise(resolve => link.onLost(resolve))
  await lost
  expect((await link.request('ping')).message.ok).toBe(true)
  expect(dialled.length).toBe(2)
  expect(link.bootId).toBe(bootId)
})

it('stops waiting for a silent runner at once when the signal aborts', async () => {
  const [silent] = duplexPair()
  const link = openLink({ id: ID, dial: async () => silent, token: 'any' })
  const abort = new AbortController()
  const request = link.request('ping', {}, { signal: abort.signal })
  const stream = link.stream('fs.watch', { path: '.' }, { signal: abort.signal })
  abort.abort(new Error('enough'))
  await expect(request).rejects.toThrow('enough')
  await expect(stream).rejects.toThrow('enough')
  silent.destroy()
})

it('a wrong token is a lost runner, not a wrong API key', async () => {
  const { backend } = await plainChildFixture()
  const machine = await backend.start(specFixture(ID), AbortSignal.timeout(10_000))
  const link = openLink({ id: ID, dial: () => machine.dial(), token: 'wrong' })
  expect(await codeOf(link.request('ping'))).toBe('RUNNER_LOST')
})
