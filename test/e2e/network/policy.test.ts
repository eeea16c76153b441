// What a policy refuses, and how: on oci, with real programs and raw bytes.

import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { deadline } from '../deadline.ts'
import type { Json } from '../real-daemon.ts'
import { type NetworkFixture, startNetwork } from './daemon.ts'
import { API, OTHER } from './upstream.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let net: NetworkFixture
let id: string
let greeter: Server
let greeterPort: number

beforeAll(async () => {
  // A server that speaks first, as MySQL and SSH do.
  greeter = createServer(socket => socket.end('hello from the database\n'))
  greeter.listen(0, '127.0.0.1')
  await once(greeter, 'listening')
  greeterPort = (greeter.address() as { port: number }).port
  net = await startNetwork('oci')
  await net.policy('narrow', {
    url_prefixes: [{ host: API, path: '/allowed/*', methods: ['GET'] }],
    domains: ['*.wild.upstream.example'],
    tcp: [`localhost:${greeterPort}`],
    private: ['localhost'],
  })
  id = (await net.daemon.create({ name: 'narrow', policies: ['narrow'], memory_mb: 1024 })).id
})
afterAll(async () => {
  await net?.[Symbol.asyncDispose]()
  greeter?.close()
})

const reply = async (args: string): Promise<Json> => JSON.parse(await net.run(id, `curl -sS ${args}`))
const lastEntry = async () => (await net.entries(id)).findLast(({ type }: Json) => type === 'request' || type === 'connection')

describe('a request that no rule allows', () => {
  test.each([
    ['for another host', 'https://example.com/', /no rule allows the host example.com/],
    ['for another path', `https://${API}/other`, /not this path/],
    ['with another method', `-X POST https://${API}/allowed/x`, /allowed with GET, not with POST/],
    ['that names another method in a header', `-H 'X-HTTP-Method-Override: DELETE' https://${API}/allowed/x`, /not with DELETE/],
    ['with an encoded way up', `--path-as-is https://${API}/allowed/%2e%2e/other`, /path/],
    ['for the parent of a wildcard', 'https://wild.upstream.example/', /no rule allows/],
    ['over plain HTTP', 'http://example.com/', /no rule allows the host example.com/],
  ])('%s gets a 403 that says why, and one line in the log', async (_, args, reason) => {
    const before = (await net.entries(id)).length
    expect(await reply(args)).toMatchObject({ error: 'blocked_by_network_allowlist', message: expect.stringMatching(reason) })
    const added = async () => (await net.entries(id)).slice(before).filter(({ type }: Json) => type === 'request')
    const blocked = expect.objectContaining({ decision: 'blocked', status: 403, reason: expect.stringMatching(reason) })
    await expect.poll(added).toEqual([blocked])
  })

  const raw = (request: string) =>
    net.run(
      id,
      `printf '${request.replaceAll('\r\n', '\\r\\n')}' | timeout 10 openssl s_client -quiet -connect ${API}:443 -servername ${API} 2>/dev/null || true`,
    )

  test.each([
    ['another name in Host than in TLS', `GET /allowed/x HTTP/1.1\r\nHost: ${OTHER}\r\n\r\n`],
    ['two Host headers', `GET /allowed/x HTTP/1.1\r\nHost: ${API}\r\nHost: ${OTHER}\r\n\r\n`],
    ['another host in its URL than in Host', `GET https://${OTHER}/allowed/x HTTP/1.1\r\nHost: ${API}\r\n\r\n`],
    [
      'a length and chunks',
      `GET /allowed/x HTTP/1.1\r\nHost: ${API}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /secret HTTP/1.1\r\nHost: ${API}\r\n\r\n`,
    ],
    ['a folded header', `GET /allowed/x HTTP/1.1\r\nHost: ${API}\r\nX-A: 1\r\n folded\r\n\r\n`],
  ])('with %s never reaches a server', async (_, request) => {
    const before = net.upstream.seen.length
    expect(await raw(request)).toMatch(/^HTTP\/1\.1 (400|403|421)/)
    expect(net.upstream.seen.length).toBe(before)
  })
})

describe('private addresses', () => {
  test.each([
    ['a name that leads to loopback', 'https://localtest.upstream.example/'],
    ['an address in every spelling', 'http://2130706433/'],
    ['an address in octal', 'http://0177.0.0.1/'],
    ['an address in hexadecimal', 'http://0x7f.1/'],
  ])('%s is not reached', async (_, url) => {
    const { output, exit_code } = await net.daemon.exec(id, `curl -sS -m 10 ${url}`)
    expect(exit_code !== 0 || output.includes('blocked_by_network_allowlist')).toBe(true)
  })

  test('a proxy port does not lead to the metadata service, the daemon or loopback', async () => {
    for (const target of ['169.254.169.254', '127.0.0.1', '[::1]', '[::ffff:127.0.0.1]', '0.0.0.0', '10.0.0.1']) {
      const { output } = await net.daemon.exec(id, `curl -sS -m 10 -x http://127.0.0.53:3128 http://${target}/`)
      expect(output, target).toMatch(/blocked_by_network_allowlist|malformed|not valid|refused/)
    }
  })

  test('a redirect is passed on and not followed', async () => {
    await net.policy('narrow', { domains: [API], tcp: [`localhost:${greeterPort}`], private: ['localhost'] })
    const output = await net.run(id, `curl -sSi 'https://${API}/redirect?to=http://169.254.169.254/'`)
    expect(output).toMatch(/302[\s\S]*location: http:\/\/169\.254\.169\.254\//i)
  })
})

describe('a tcp rule', () => {
  test('reaches a server that speaks first, without a look at its bytes', async () => {
    expect(
      await net.run(id, `exec 3<>/dev/tcp/127.0.0.53/1080; printf '\\x05\\x01\\x00' >&3; head -c 2 <&3 | od -An -tx1`),
    ).toContain('05 00')
    const output = await net.run(
      id,
      `curl -sS -m 10 --http0.9 --socks5-hostname 127.0.0.53:1080 http://localhost:${greeterPort}/ 2>&1 || true`,
    )
    expect(output).toContain('hello from the database')
    await expect.poll(lastEntry).toMatchObject({ type: 'connection', decision: 'allowed', port: greeterPort })
  })
})

describe('a policy that changes while the session runs', () => {
  test('holds from the next request on, and cuts what it no longer allows', async () => {
    await net.policy('narrow', { domains: [API] })
    const cut = net.daemon.exec(id, `curl -sS 'https://${API}/download?bytes=100000000000' -o /tmp/cut`, {
      timeout_ms: 60_000,
      shell: 'cut',
    })
    await deadline('the download is under way', async () => {
      const { output } = await net.daemon.exec(id, 'stat -c %s /tmp/cut')
      return Number(output) > 100_000
    })
    await net.policy('narrow', { domains: [OTHER] })
    expect((await cut).exit_code).not.toBe(0)
    expect(await net.run(id, `curl -sS https://${API}/`)).toContain('no rule allows')
    expect(await net.run(id, `curl -sS https://${OTHER}/`)).toContain(`GET ${OTHER}`)
  })
})

describe('mode observe', () => {
  test('allows and records everything, and the record becomes a policy', async () => {
    const { id: watched } = await net.daemon.create({ name: 'watched', network: 'allowlist', policy_mode: 'observe' })
    await net.run(watched, `curl -sSf https://${API}/v1/things https://${API}/v1/others`)
    const observed = (path: string) =>
      expect.objectContaining({ decision: 'allowed', tags: ['observed'], url: `https://${API}${path}` })
    const both = ['/v1/things', '/v1/others'].map(observed)
    await expect.poll(() => net.entries(watched)).toEqual(expect.arrayContaining(both))
    const suggestion = (await net.daemon.call('GET', `/v1/sessions/${watched}/network/suggestion`)).json()
    expect(JSON.stringify(suggestion)).toContain(API)
    await net.policy('suggested', suggestion)
    const { id: held } = await net.daemon.create({ name: 'held', policies: ['suggested'] })
    expect(await net.run(held, `curl -sS https://${API}/v1/things`)).toContain(`GET ${API}`)
    expect(await net.run(held, `curl -sS https://${OTHER}/`)).toContain('no rule allows')
  })
})

describe('mode ask', () => {
  test('holds a request until a person answers: once, for the session, or into the policy', async () => {
    await net.policy('asks', { domains: [API] })
    const { id: asking } = await net.daemon.create({ name: 'asking', policies: ['asks'], policy_mode: 'ask' })
    const ask = (path: string, shell: string) =>
      net.daemon.exec(asking, `curl -sS https://${OTHER}${path}`, { shell, timeout_ms: 60_000 })
    const pending = async (path: string): Promise<Json> => {
      let found: Json
      await deadline('the request is held', async () => {
        const { items } = (await net.daemon.call('GET', '/v1/approvals?status=pending')).json()
        found = items.find(({ url }: Json) => url.endsWith(path))
        return found !== undefined
      })
      return found
    }
    const once = ask('/once', 'a')
    const first = await pending('/once')
    expect(first).toMatchObject({ session_name: 'asking', method: 'GET', host: OTHER, requests: 1 })
    expect((await net.daemon.call('POST', `/v1/approvals/${first.id}/allow`, {})).json()).toMatchObject({ status: 'allowed' })
    expect((await once).output).toContain(`GET ${OTHER} /once`)
    expect((await net.daemon.call('POST', `/v1/approvals/${first.id}/deny`, {})).status).toBe(409)

    const denied = ask('/denied', 'b')
    await net.daemon.call('POST', `/v1/approvals/${(await pending('/denied')).id}/deny`, {})
    expect((await denied).output).toContain('blocked_by_network_allowlist')

    const forSession = ask('/session', 'c')
    await net.daemon.call('POST', `/v1/approvals/${(await pending('/session')).id}/allow`, { scope: 'policy' })
    expect((await forSession).output).toContain('/session')
    expect((await ask('/later', 'd')).output).toContain('/later')
    const { policy } = (await net.daemon.call('GET', '/v1/policies/asks')).json()
    expect(JSON.stringify(policy)).toContain(OTHER)
  })

  test('no longer holds a request whose program has gone, and lets go what a rule allows meanwhile', async () => {
    await net.policy('waits', { domains: [API] })
    const { id: asking } = await net.daemon.create({ name: 'waiting', policies: ['waits'], policy_mode: 'ask' })
    const waiting = async () => {
      const { items } = (await net.daemon.call('GET', '/v1/approvals?status=pending&session=waiting')).json()
      return items.map(({ url }: Json) => url)
    }
    const gone = net.daemon.exec(asking, `curl -sS https://${OTHER}/gone`, { shell: 'gone', timeout_ms: 60_000 })
    await deadline('the request is held', async () => (await waiting()).length === 1)
    await net.daemon.call('POST', `/v1/sessions/${asking}/shells/gone/interrupt`)
    expect((await gone).exit_code).toBe(130)
    await deadline('it no longer waits', async () => (await waiting()).length === 0)
    const both = ['one', 'two'].map(path =>
      net.daemon.exec(asking, `curl -sS https://${OTHER}/${path}`, { shell: path, timeout_ms: 60_000 }),
    )
    await deadline('both are held', async () => (await waiting()).length === 2)
    await net.policy('waits', { domains: [API, OTHER] })
    for (const result of both) expect((await result).output).toContain(`GET ${OTHER}`)
  })
})

describe('network nat', () => {
  test('reaches public hosts without a rule, and no private address', async () => {
    const { id: open } = await net.daemon.create({ name: 'open', network: 'nat' })
    expect(await net.run(open, `curl -sS https://${API}/nat`)).toContain('/nat')
    const { output } = await net.daemon.exec(open, 'curl -sS -m 10 -x http://127.0.0.53:3128 http://169.254.169.254/')
    expect(output).toContain('blocked_by_network_allowlist')
    const { exit_code } = await net.daemon.exec(open, 'getent hosts no-such-name.invalid')
    expect(exit_code).not.toBe(0)
  })
})

test('a session without a policy has no network and no endpoint for one', async () => {
  const { id: none } = await net.daemon.create({ name: 'none' })
  const { exit_code } = await net.daemon.exec(none, `curl -sS -m 5 https://${API}/`)
  expect(exit_code).not.toBe(0)
})
