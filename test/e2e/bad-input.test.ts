// What a careless or hostile caller sends: each gets a clear error and loses nothing.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Json, RealDaemon } from './real-daemon.ts'
import { tarOf } from './tar-of.ts'

const daemon = new RealDaemon()
let id: string

beforeAll(async () => {
  await daemon.start()
  id = (await daemon.create({ name: 'bad-input' })).id
})
afterAll(() => daemon.remove())

const errorOf = async (reply: Promise<{ status: number; json: () => Json }>) => {
  const { status, json } = await reply
  const { error } = json()
  expect(error.message).toBeTruthy()
  expect(error.request_id).toBeTruthy()
  return [status, error.code]
}

describe('requests', () => {
  test('a wrong key is refused', async () => {
    const reply = daemon.call('GET', '/v1/sessions', undefined, { authorization: 'Bearer wrong-key-wrong-key' })
    expect(await errorOf(reply)).toEqual([401, 'UNAUTHORIZED'])
  })

  test('no key is refused', async () => {
    expect(await errorOf(daemon.call('GET', '/v1/sessions', undefined, { authorization: '' }))).toEqual([401, 'UNAUTHORIZED'])
  })

  test('an unknown field is refused by name', async () => {
    const reply = await daemon.call('POST', '/v1/sessions', { imagee: 'host' })
    expect(reply.status).toBe(400)
    expect(reply.json().error.message).toContain('imagee')
  })

  test('an unknown image is refused with 404, and no session is left running', async () => {
    expect(await errorOf(daemon.call('POST', '/v1/sessions', { image: `sha256:${'0'.repeat(64)}`, name: 'no-image' }))).toEqual([
      404,
      'IMAGE_NOT_FOUND',
    ])
    const running = (await daemon.call('GET', '/v1/sessions')).json().items.map((s: Json) => s.name)
    expect(running).not.toContain('no-image')
  })

  test('too large a body is refused before it is read', async () => {
    const reply = daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'x'.repeat(4 << 20) })
    expect(await errorOf(reply)).toEqual([413, 'BODY_TOO_LARGE'])
  })

  test('a body that is not JSON is refused', async () => {
    const reply = daemon.call('POST', '/v1/sessions', Buffer.from('{"image":'), { 'content-type': 'application/json' })
    expect(await errorOf(reply)).toEqual([400, 'INVALID_REQUEST'])
  })

  test('a timeout over the maximum is refused, not shortened', async () => {
    const reply = daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'true', timeout_ms: 120_001 })
    expect(await errorOf(reply)).toEqual([400, 'TIMEOUT_TOO_LONG'])
  })

  test('a session that does not exist is a 404 and one that does not run a 409', async () => {
    expect(await errorOf(daemon.call('POST', '/v1/sessions/nobody/exec', { cmd: 'true' }))).toEqual([404, 'SESSION_NOT_FOUND'])
    const { id: stopped } = await daemon.create({ start: false })
    expect(await errorOf(daemon.call('POST', `/v1/sessions/${stopped}/exec`, { cmd: 'true' }))).toEqual([409, 'WRONG_STATE'])
  })

  test('a name in use is taken until its session ends', async () => {
    expect(await errorOf(daemon.call('POST', '/v1/sessions', { name: 'bad-input' }))).toEqual([409, 'NAME_TAKEN'])
  })
})

describe('paths', () => {
  const read = (path: string) => errorOf(daemon.call('GET', `/v1/sessions/${id}/fs/read?path=${encodeURIComponent(path)}`))
  const write = (path: string) => errorOf(daemon.call('POST', `/v1/sessions/${id}/fs/write`, { path, text: 'x' }))

  test('.. does not lead out of the workspace', async () => {
    expect(await read('../etc/passwd')).toEqual([400, 'PATH_OUTSIDE_WORKSPACE'])
    expect(await read('/workspace/../../etc/passwd')).toEqual([400, 'PATH_OUTSIDE_WORKSPACE'])
    expect(await write('a/../../etc/x')).toEqual([400, 'PATH_OUTSIDE_WORKSPACE'])
  })

  test('NUL is refused', async () => {
    expect(await write('a\0b')).toEqual([400, 'INVALID_REQUEST'])
  })

  test('a symbolic link out of the workspace is refused, for reading and for writing through it', async () => {
    await daemon.exec(id, 'ln -sfn /etc/passwd out; ln -sfn /etc outdir')
    expect(await read('out')).toEqual([400, 'PATH_OUTSIDE_WORKSPACE'])
    expect(await read('outdir/passwd')).toEqual([400, 'PATH_OUTSIDE_WORKSPACE'])
    expect(await write('outdir/x')).toEqual([400, 'PATH_OUTSIDE_WORKSPACE'])
  })

  test('a directory where a file is expected is named as such', async () => {
    await daemon.exec(id, 'mkdir -p adir')
    expect(await read('adir')).toEqual([400, 'IS_A_DIRECTORY'])
    expect(await write('adir')).toEqual([400, 'IS_A_DIRECTORY'])
  })

  test('a fifo is not read from, so nothing hangs', async () => {
    await daemon.exec(id, 'rm -f pipe; mkfifo pipe')
    expect(await read('pipe')).toEqual([400, 'NOT_A_FILE'])
  })

  test('10,000 files in a folder are listed', async () => {
    await daemon.exec(id, 'mkdir -p many && cd many && seq 1 10000 | xargs touch; cd ..')
    const { items, truncated } = (await daemon.call('GET', `/v1/sessions/${id}/fs/list?path=many`)).json()
    expect([items.length, truncated]).toEqual([10_000, false])
  })

  test('a file named with newlines is listed and read', async () => {
    await daemon.exec(id, "mkdir -p odd && printf hello > $'odd/a\\nb\\tc'")
    const { items } = (await daemon.call('GET', `/v1/sessions/${id}/fs/list?path=odd`)).json()
    expect(items.map((f: Json) => f.name)).toEqual(['a\nb\tc'])
    const got = await daemon.call('GET', `/v1/sessions/${id}/files?path=${encodeURIComponent('odd/a\nb\tc')}`)
    expect(got.body.toString()).toBe('hello')
  })
})

describe('archives', () => {
  const put = (entries: Parameters<typeof tarOf>[0]) =>
    daemon.call('PUT', `/v1/sessions/${id}/archive?path=/workspace/unpacked`, tarOf(entries), {
      'content-type': 'application/x-tar',
    })

  test.each([
    ['a name with ../', { name: '../escaped', text: 'x' }],
    ['an absolute name', { name: '/etc/escaped', text: 'x' }],
    ['a hard link out', { name: 'link', hardlink: '/etc/passwd' }],
    ['a device node', { name: 'dev', type: '3' }],
  ])('a tar with %s is refused', async (_, entry) => {
    await daemon.exec(id, 'mkdir -p /workspace/unpacked')
    expect(await errorOf(put([entry]))).toEqual([400, 'ARCHIVE_UNSAFE'])
  })

  test('a file through a symbolic link that the same tar brought does not leave the folder', async () => {
    await errorOf(
      put([
        { name: 'evil', symlink: '/tmp' },
        { name: 'evil/planted', text: 'x' },
      ]),
    )
    expect((await daemon.exec(id, 'ls /tmp/planted')).exit_code).not.toBe(0)
  })
})
