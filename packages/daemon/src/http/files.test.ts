import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { daemonFixture, KEY, plainChild, until } from '../testing/daemon.fixture.ts'
import { parseRange } from './handlers/files.ts'

describe('files', () => {
  it('of any size are written and read as raw bytes', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const content = Buffer.alloc(20_000_000, 'sandglass')
    const put = await daemon.fetch(`/v1/sessions/${id}/files?path=big/file.bin&mode=600`, { method: 'PUT', body: content })
    expect(await put.json()).toMatchObject({ ok: true, size: content.length })
    const got = await daemon.fetch(`/v1/sessions/${id}/files?path=big/file.bin`)
    expect(got.headers.get('content-length')).toBe(String(content.length))
    const hash = (data: Uint8Array) => createHash('sha256').update(data).digest('hex')
    expect(hash(new Uint8Array(await got.arrayBuffer()))).toBe(hash(content))
    const stat = await daemon.call('GET', `/v1/sessions/${id}/fs/stat?path=big/file.bin`)
    expect(stat.body).toMatchObject({ type: 'file', size: content.length, mode: expect.stringMatching(/600$/) })
  })

  it('of unknown length are written while they arrive', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const body = Readable.toWeb(
      Readable.from(
        (async function* () {
          for (let i = 0; i < 10; i++) yield Buffer.from(`line ${i}\n`)
        })(),
      ),
    )
    const put = await daemon.fetch(`/v1/sessions/${id}/files?path=s`, { method: 'PUT', body, duplex: 'half' } as RequestInit)
    expect(await put.json()).toMatchObject({ size: 70 })
  })

  it.each([
    { 'content-length': '0' },
    { 'content-type': 'text/plain', 'content-length': '0' },
    { 'transfer-encoding': 'chunked' },
  ])('can be empty, with the headers %o', async headers => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const url = new URL(`/v1/sessions/${id}/files?path=empty`, daemon.url)
    const put = request(url, { method: 'PUT', headers: { authorization: `Bearer ${KEY}`, ...headers } }).end()
    const [reply] = (await once(put, 'response')) as [IncomingMessage]
    expect(JSON.parse(await text(reply))).toMatchObject({ ok: true, size: 0 })
  })

  it.each([0, 1, 10_000, 200_000])(
    '%i in a folder are listed whole',
    async count => {
      // In memory: making so many files on a disk would be most of the test.
      const folder = await mkdtemp('/dev/shm/sg-')
      onTestFinished(() => rm(folder, { recursive: true, force: true }))
      const daemon = await daemonFixture({ backends: () => [plainChild(folder)] })
      const { id } = await daemon.create()
      const cmd = `mkdir many && cd many && seq ${count} | xargs -r touch`
      await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd, timeout_ms: 60_000 })
      const { status, body } = await daemon.call('GET', `/v1/sessions/${id}/fs/list?path=many&max_entries=250000`)
      expect(status).toBe(200)
      const { path, items, truncated } = body as { path: string; items: { name: string }[]; truncated: boolean }
      expect([path.endsWith('/many'), items.length, truncated]).toEqual([true, count, false])
      expect(new Set(items.map(item => item.name)).size).toBe(count)
      const found = await daemon.call('GET', `/v1/sessions/${id}/fs/search?path=many&name=*7&max_matches=10000`)
      expect(found.body).toMatchObject({ truncated: count === 200_000, items: { length: Math.min(count / 10, 10_000) | 0 } })
    },
    60_000,
  )

  it('that cannot be listed are refused with a plain reply', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const list = (query: string) => daemon.call('GET', `/v1/sessions/${id}/fs/list?${query}`)
    expect(await list('path=missing')).toMatchObject({ status: 404, body: { error: { code: 'FILE_NOT_FOUND' } } })
    expect(await list('path=../..')).toMatchObject({ body: { error: { code: 'PATH_OUTSIDE_WORKSPACE' } } })
    expect(await list('max_entries=250001')).toMatchObject({ status: 400, body: { error: { code: 'INVALID_REQUEST' } } })
  })

  it('are read by range', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    await daemon.call('POST', `/v1/sessions/${id}/fs/write`, { path: 'f', text: '0123456789' })
    const range = async (header: string) => {
      const response = await daemon.fetch(`/v1/sessions/${id}/files?path=f`, { headers: { range: header } })
      return [response.status, await response.text(), response.headers.get('content-range')]
    }
    expect(await range('bytes=2-4')).toEqual([206, '234', 'bytes 2-4/10'])
    expect(await range('bytes=7-')).toEqual([206, '789', 'bytes 7-9/10'])
    expect(await range('bytes=-3')).toEqual([206, '789', 'bytes 7-9/10'])
    expect(await range('bytes=5-99')).toEqual([206, '56789', 'bytes 5-9/10'])
    expect((await range('bytes=10-'))[0]).toBe(416)
    expect(await range('bytes=0-1,4-5')).toEqual([200, '0123456789', null])
    expect([parseRange('bytes=5-2'), parseRange('lines=1-2'), parseRange(undefined)]).toEqual([null, null, null])
  })

  it('are written, listed, searched, moved and removed', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const base = `/v1/sessions/${id}/fs`
    expect((await daemon.call('POST', `${base}/write`, { path: 'a/b.txt', text: 'needle é\n' })).body).toMatchObject({
      ok: true,
      size: 10,
    })
    expect((await daemon.call('GET', `${base}/read?path=a/b.txt&max_bytes=6`)).body).toMatchObject({
      content_base64: 'bmVlZGxl',
      size: 10,
      truncated: true,
    })
    expect((await daemon.call('GET', `${base}/list?path=a`)).body).toMatchObject({
      items: [{ name: 'b.txt', type: 'file', modified_at: expect.stringMatching(/Z$/) }],
      truncated: false,
    })
    expect((await daemon.call('GET', `${base}/search?text=needle`)).body).toMatchObject({ items: [{ line: 1 }] })
    expect((await daemon.call('POST', `${base}/mkdir`, { path: 'c' })).body).toEqual({ ok: true })
    expect((await daemon.call('POST', `${base}/move`, { from: 'a/b.txt', to: 'c/d.txt' })).body).toEqual({ ok: true })
    expect((await daemon.call('POST', `${base}/remove`, { path: 'c' })).body).toMatchObject({ error: { code: 'NOT_EMPTY' } })
    expect((await daemon.call('POST', `${base}/remove`, { path: 'c', recursive: true })).body).toEqual({ ok: true })
  })

  it.each([
    ['missing', 'GET', 'read?path=none', undefined, 404, 'FILE_NOT_FOUND'],
    ['outside', 'GET', 'read?path=../../../../etc/passwd', undefined, 400, 'PATH_OUTSIDE_WORKSPACE'],
    ['through a link that leads out', 'GET', 'read?path=link', undefined, 400, 'PATH_OUTSIDE_WORKSPACE'],
    ['with NUL', 'GET', 'read?path=a%00b', undefined, 400, 'INVALID_REQUEST'],
    ['a directory where a file is expected', 'GET', 'read?path=.', undefined, 400, 'IS_A_DIRECTORY'],
    ['of two kinds', 'POST', 'write', { path: 'x', text: 'a', content_base64: 'YQ==' }, 400, 'INVALID_REQUEST'],
  ])('%s are refused', async (_what, method, path, body, status, code) => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'ln -s /etc/passwd link' })
    const reply = await daemon.call(method, `/v1/sessions/${id}/fs/${path}`, body)
    expect([reply.status, (reply.body as { error: { code: string } }).error.code]).toEqual([status, code])
  })

  it('stay unchanged when an upload is broken off', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    await daemon.call('POST', `/v1/sessions/${id}/fs/write`, { path: 'f', text: 'old' })
    const leave = new AbortController()
    const body = Readable.toWeb(
      Readable.from(
        (async function* () {
          yield Buffer.from('new')
          await until(() => daemon.context.live.get(id)?.holds === 1)
          leave.abort()
        })(),
      ),
    )
    await daemon
      .fetch(`/v1/sessions/${id}/files?path=f`, { method: 'PUT', body, duplex: 'half', signal: leave.signal } as RequestInit)
      .catch(() => undefined)
    // The runner lets go of what it wrote a moment after the daemon.
    await until(
      async () => ((await daemon.call('GET', `/v1/sessions/${id}/fs/list`)).body as { items: unknown[] }).items.length === 1,
    )
    expect((await daemon.call('GET', `/v1/sessions/${id}/fs/read?path=f`)).body).toMatchObject({
      content_base64: Buffer.from('old').toString('base64'),
    })
    expect((await daemon.call('GET', `/v1/sessions/${id}/fs/list`)).body).toMatchObject({ items: [{ name: 'f' }] })
  })

  it('are written and read as a tar archive', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'mkdir -p d/e && echo hi > d/e/f' })
    const got = await daemon.fetch(`/v1/sessions/${id}/archive?path=d`)
    expect(got.headers.get('content-type')).toBe('application/x-tar')
    const tar = await got.arrayBuffer()
    const put = await daemon.fetch(`/v1/sessions/${id}/archive?path=copy`, { method: 'PUT', body: tar })
    expect(await put.json()).toMatchObject({ ok: true, entries: 2 })
    expect((await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'cat copy/e/f' })).body).toMatchObject({ output: 'hi\n' })
    const bad = await daemon.fetch(`/v1/sessions/${id}/archive`, { method: 'PUT', body: 'not a tar' })
    expect(bad.status).toBeGreaterThanOrEqual(400)
  })

  it('a client that keeps sending a refused archive can read the reply', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const socketPath = daemon.addresses.find(address => address.startsWith('unix:'))?.slice(5)
    const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/x-tar' }
    const put = request({ socketPath, method: 'PUT', path: `/v1/sessions/${id}/archive?path=new`, headers })
    const answered = once(put, 'response') as Promise<[IncomingMessage]>
    put.write('x'.repeat(1024))
    const [response] = await answered
    expect(response.statusCode).toBe(400)
    expect(JSON.parse(await text(response))).toMatchObject({ error: { code: 'INVALID_REQUEST' } })
    for (let i = 0; i < 20; i++)
      await new Promise((resolve, reject) => put.write('x'.repeat(100_000), e => (e ? reject(e) : resolve(e))))
    put.end()
    await once(put, 'finish')
    expect((await daemon.call('GET', `/v1/sessions/${id}/fs/list`)).body).toMatchObject({ items: [] })
  })

  it('are packed without unreadable entries, or refused because of them', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    // A name of more than 16 KiB is what nobody can pack, not even root.
    const cmd = `mkdir d && cd d && touch first && python3 -c 'import os
for _ in range(300): os.mkdir("n" * 250); os.chdir("n" * 250)
open("last", "w")'`
    await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd })
    const refused = await daemon.fetch(`/v1/sessions/${id}/archive?path=d`)
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      { error: { message: expect.stringContaining('at most 16384') } },
    ])
    const packed = await daemon.fetch(`/v1/sessions/${id}/archive?path=d&on_unreadable=skip`)
    const tar = Buffer.from(await packed.arrayBuffer()).toString('latin1')
    expect([packed.status, tar.slice(0, 5), tar.includes('comment=unreadable: nnn')]).toEqual([200, 'first', true])
    await daemon.call('POST', `/v1/sessions/${id}/fs/remove`, { path: 'd', recursive: true })
  })

  it('are watched', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const leave = new AbortController()
    const response = await daemon.fetch(`/v1/sessions/${id}/fs/watch`, { signal: leave.signal })
    await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'touch seen' })
    let text = ''
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk
      if (text.includes('seen')) break
    }
    expect(text).toContain('event: change\ndata: {"type":"created"')
    leave.abort()
  })
})

describe('stats, ports and the boot log', () => {
  it('show the resource use and the ports of a session', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'true' })
    expect((await daemon.call('GET', `/v1/sessions/${id}/stats`)).body).toMatchObject({
      shells: 1,
      pids: expect.any(Number),
      memory_bytes: expect.any(Number),
    })
    expect((await daemon.call('GET', `/v1/sessions/${id}/ports`)).body).toMatchObject({ items: expect.any(Array) })
    const log = await daemon.fetch(`/v1/sessions/${id}/logs`)
    expect([log.status, log.headers.get('content-type')]).toEqual([200, 'text/plain; charset=utf-8'])
  })
})
