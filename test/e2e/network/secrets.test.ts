// Secrets of a session on oci: programs see a surrogate, the server sees the value, and the value is nowhere inside.
import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type NetworkFixture, startNetwork } from './daemon.ts'
import { API, OTHER } from './upstream.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const REAL = 'ghp_CANARYxReal0123456789abcdefghijklmno'
let net: NetworkFixture
let id: string

beforeAll(async () => {
  net = await startNetwork('oci')
  await net.policy('both', { domains: [API, OTHER] })
  await net.secret('token', { value: REAL, env: 'API_TOKEN', scopes: [API], headers: ['authorization'] })
  id = (await net.daemon.create({ name: 'masked', policies: ['both'], secrets: ['token'], memory_mb: 1024 })).id
})
afterAll(async () => await net?.[Symbol.asyncDispose]())

/** The processes of the sandbox that have the text in their memory, read from outside. */
function processesWith(dataDir: string, session: string, text: string): string[] {
  const { pid: first } = JSON.parse(readFileSync(join(dataDir, 'sessions', session, 'state.json'), 'utf8'))
  const inside = readlinkSync(`/proc/${first}/ns/pid`)
  return readdirSync('/proc')
    .filter(pid => /^\d+$/.test(pid) && namespaceOf(pid) === inside)
    .filter(pid => memoryOf(pid).includes(text))
}

function namespaceOf(pid: string): string | null {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`)
  } catch {
    return null // it has ended meanwhile
  }
}

function memoryOf(pid: string): string {
  let file: number | undefined
  try {
    file = openSync(`/proc/${pid}/mem`, 'r')
    const writable = readFileSync(`/proc/${pid}/maps`, 'utf8').matchAll(/^([0-9a-f]+)-([0-9a-f]+) rw/gm)
    const opened = file
    return [...writable].map(([, start, end]) => readRange(opened, BigInt(`0x${start}`), BigInt(`0x${end}`))).join('')
  } catch (error) {
    // It has ended meanwhile.
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return ''
    throw error
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

/** Reserved address space is not mapped: a read stops there. */
function readRange(file: number, start: bigint, end: bigint): string {
  const parts: Buffer[] = []
  for (let at = start; at < end; at += 1_048_576n) {
    const length = Number(end - at < 1_048_576n ? end - at : 1_048_576n)
    const buffer = Buffer.alloc(length)
    try {
      readSync(file, buffer, 0, length, at)
    } catch {
      break // nothing is mapped here
    }
    parts.push(buffer)
  }
  return Buffer.concat(parts).toString('latin1')
}

const lastSeen = (path: string) => net.upstream.seen.findLast(({ url }) => url.startsWith(path))

describe('a masked secret', () => {
  test('reaches the server that checks it, from an environment that has a surrogate of the same shape', async () => {
    const surrogate = (await net.run(id, 'printf %s "$API_TOKEN"')).trim()
    expect(surrogate).toMatch(/^ghp_[A-Za-z0-9]{36}$/)
    expect(surrogate).not.toBe(REAL)
    await net.run(id, `curl -sSf -H "Authorization: Bearer $API_TOKEN" https://${API}/bearer`)
    expect(lastSeen('/bearer')?.headers.authorization).toBe(`Bearer ${REAL}`)
    await expect
      .poll(() => net.entries(id))
      .toContainEqual(expect.objectContaining({ url: `https://${API}/bearer`, masked: 1, decision: 'allowed' }))
  })

  test('is inserted in Basic credentials, as git sends them', async () => {
    await net.run(id, `curl -sSf -u "x-access-token:$API_TOKEN" https://${API}/basic`)
    expect(lastSeen('/basic')?.headers.authorization).toBe(`Basic ${Buffer.from(`x-access-token:${REAL}`).toString('base64')}`)
  })

  test('is not inserted for another host, over plain HTTP, or in another header', async () => {
    await net.run(id, `curl -sSf -H "Authorization: Bearer $API_TOKEN" https://${OTHER}/elsewhere`)
    await net.run(id, `curl -sSf -H "Authorization: Bearer $API_TOKEN" http://${API}/insecure`)
    await net.run(id, `curl -sSf -H "X-Other: $API_TOKEN" https://${API}/unlisted`)
    for (const path of ['/elsewhere', '/insecure', '/unlisted'])
      expect(JSON.stringify(lastSeen(path)?.headers)).not.toContain(REAL)
  })

  test('keeps out the credentials of others, and the log says so', async () => {
    await net.run(id, `curl -sSf -H "Authorization: Bearer of-somebody-else" https://${API}/foreign`)
    expect(lastSeen('/foreign')?.headers.authorization).toBeUndefined()
    const stripped = expect.objectContaining({ type: 'stripped', reason: 'authorization' })
    await expect.poll(() => net.entries(id)).toContainEqual(stripped)
  })

  test.each(['/reflect', '/reflect-gzip'])('that the server returns in %s comes back as the surrogate', async path => {
    const output = await net.run(
      id,
      `curl -sSi --compressed -H "Authorization: Bearer $API_TOKEN" https://${API}${path}; echo; echo "$API_TOKEN"`,
    )
    const surrogate = output.trim().split('\n').at(-1)?.trim()
    expect(output).toContain(`you sent Bearer ${surrogate}`)
    expect(output).not.toContain(REAL)
  })

  test('that is rotated is used at once, without a restart, and the surrogate stays', async () => {
    const before = await net.run(id, 'printf %s "$API_TOKEN"')
    const next = 'ghp_CANARYxNext0123456789abcdefghijklmno'
    expect((await net.daemon.call('POST', '/v1/secrets/token/rotate', { value: next })).status).toBe(200)
    await net.run(id, `curl -sSf -H "Authorization: Bearer $API_TOKEN" https://${API}/rotated`)
    expect(lastSeen('/rotated')?.headers.authorization).toBe(`Bearer ${next}`)
    expect(await net.run(id, 'printf %s "$API_TOKEN"')).toBe(before)
    await net.daemon.call('POST', '/v1/secrets/token/rotate', { value: REAL })
  })

  test('is nowhere inside: in no environment, file or memory of a process, and in no log of the host', async () => {
    await net.run(id, `curl -sSf -H "Authorization: Bearer $API_TOKEN" https://${API}/canary`)
    const found = await net.run(
      id,
      `grep -rlaE 'CANARYx(Real|Next)' /proc/[0-9]*/environ /proc/[0-9]*/cmdline /tmp /home /workspace /run /etc 2>/dev/null | grep -v /proc/self; echo searched`,
    )
    expect(found.trim()).toBe('searched')
    expect(processesWith(net.daemon.dataDir, id, REAL)).toEqual([])
    // The search does find what is there.
    await net.run(id, 'MARK=CANARY; MARK=$MARK-of-the-shell; : "$MARK"')
    expect(processesWith(net.daemon.dataDir, id, 'CANARY-of-the-shell')).not.toEqual([])
    expect(net.daemon.log).not.toContain('CANARYx')
    const log = await net.daemon.call('GET', `/v1/sessions/${id}/network/file`)
    expect(log.body.toString()).not.toContain('CANARYx')
  })
})

test('secrets of a session without a network are surrogates too, and a warning says that calls will fail', async () => {
  const session = await net.daemon.create({ name: 'offline', secrets: ['token'] })
  expect(session.warnings.join('\n')).toMatch(/token/)
  expect(await net.run(session.id, 'printf %s "$API_TOKEN"')).toMatch(/^ghp_/)
})
