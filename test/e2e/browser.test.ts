import { fileURLToPath } from 'node:url'
import { ERRORS } from '@sandglass/contract/tables'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openChromium } from './chromium.ts'
import { deadline } from './deadline.ts'
import { RealDaemon } from './real-daemon.ts'
import { serveWebPage, type WebPage } from './web-page.ts'

const PATIENCE_MS = 60_000
const PAGE = fileURLToPath(new URL('./browser.page.ts', import.meta.url))

describe('the SDK in a browser, on a page of another origin', () => {
  let daemon: RealDaemon
  let page: WebPage
  beforeAll(async () => {
    page = await serveWebPage(PAGE, () => ({ baseUrl: addressOf(daemon), apiKey: daemon.key }))
    daemon = await new RealDaemon(['--listen', '127.0.0.1:0', '--cors-origins', `http://page.test:${page.port}`]).start()
  })
  afterAll(async () => {
    await page?.[Symbol.asyncDispose]()
    await daemon?.remove()
  })

  it('creates, streams, reads and writes, has a terminal, aborts, gets typed errors and destroys', async () => {
    expect(await reportOf(page, 'page.test')).toEqual({
      isSecure: false,
      labels: { made_by: 'a page' },
      stream: { output: 'one\ntwo\n', exitCode: 3 },
      files: { text: 'grüße\n', size: 300_000, isSame: true },
      terminal: { hasSize: true, exitCode: 0 },
      aborted: [expect.objectContaining({ name: 'AbortError' }), expect.objectContaining({ name: 'AbortError' })],
      wrongKey: { code: 'UNAUTHORIZED', hint: ERRORS.UNAUTHORIZED.hint },
      wrongKeyOnSocket: { code: 'UNAUTHORIZED', hint: ERRORS.UNAUTHORIZED.hint },
      noSession: expect.objectContaining({ code: 'SESSION_NOT_FOUND' }),
      status: 'terminated',
    })
  }, 90_000)

  it('is kept out by the browser when the origin is not listed', async () => {
    expect(await reportOf(page, 'other.test')).toMatchObject({ code: 'DAEMON_UNREACHABLE' })
    expect((await daemon.call('GET', '/v1/sessions')).json().items).toEqual([])
  }, 90_000)
})

async function reportOf(page: WebPage, name: string): Promise<unknown> {
  const before = page.report()
  await using browser = openChromium(`http://${name}:${page.port}/`, [name])
  await deadline('the page reports', () => page.report() !== before, PATIENCE_MS).catch(cause => {
    throw new Error(`${cause.message}\n${browser.log}`, { cause })
  })
  return page.report()
}

function addressOf({ log }: RealDaemon): string {
  const listening = log.split('\n').find(line => line.includes('"listening"')) ?? '{}'
  const { addresses = [] }: { addresses?: string[] } = JSON.parse(listening)
  return addresses.find(address => address.startsWith('http://')) ?? ''
}
