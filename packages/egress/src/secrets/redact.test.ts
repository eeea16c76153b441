import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { createGzip, deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { SessionSecret } from '../session.ts'
import { createRedactor, redactorOf as knownRedactor, type Redactor } from './redact.ts'
import { pieces, REAL, SURROGATE, secret } from './secrets.fixture.ts'
import { makeSurrogate } from './surrogate.ts'

const redactText = (secrets: readonly SessionSecret[], text: string) => knownRedactor(secrets)?.redactText(text) ?? text

function redactorOf(secrets: readonly SessionSecret[]): Redactor {
  const redactor = createRedactor(secrets)
  if (redactor === null) throw new Error('nothing to redact')
  return redactor
}

function streamOf(redactor: Redactor, encoding: string | null) {
  const body = redactor.body(encoding)
  if ('refused' in body) throw new Error(body.refused)
  expect(body.encoding).toBeNull()
  return body.transform
}

async function redactBody(
  redactor: Redactor,
  data: Buffer,
  encoding: string | null = null,
  cuts: readonly number[] = [],
): Promise<string> {
  const transform = streamOf(redactor, encoding)
  const [result] = await Promise.all([buffer(transform), pipeline(Readable.from(pieces(data, cuts)), transform)])
  return result.toString()
}

const base64 = (text: string) => Buffer.from(text).toString('base64')

describe('a value in a reply', () => {
  const odd = secret({ value: 'p@ss/w+rd="<é>&\n', surrogate: 'surrogate0123456' })

  it.each<[string, (text: string) => string]>([
    ['as it is', text => text],
    ['in JSON', text => JSON.stringify(text).slice(1, -1)],
    ['in JSON with escaped slashes', text => JSON.stringify(text).slice(1, -1).replaceAll('/', '\\/')],
    ['in JSON that is ASCII', text => JSON.stringify(text).slice(1, -1).replaceAll('é', '\\u00e9')],
    [
      'in JSON for HTML',
      text =>
        JSON.stringify(text)
          .slice(1, -1)
          .replaceAll(/[<>&]/g, c => `\\u00${c.charCodeAt(0).toString(16)}`),
    ],
    ['percent-encoded', encodeURIComponent],
    ['percent-encoded in lower case', text => encodeURIComponent(text).replaceAll(/%../g, hex => hex.toLowerCase())],
    ['in a form', text => new URLSearchParams([[text, '']]).toString().slice(0, -1)],
  ])('%s becomes the surrogate in body and headers', async (_, encode) => {
    const text = `before ${encode(odd.value)} after`
    expect(await redactBody(redactorOf([odd]), Buffer.from(text))).toBe('before surrogate0123456 after')
    const raw = Buffer.from(text).toString('latin1')
    expect(redactorOf([odd]).redactHeaders([['X-Echo', raw]])).toEqual([['X-Echo', 'before surrogate0123456 after']])
    expect(redactText([odd], text)).toBe('before surrogate0123456 after')
  })

  it.each(['', 'a', 'ab', 'abc', 'user:', 'longer-user:'])('in base64 after %j decodes to the surrogate', async before => {
    for (const after of ['', 'x', 'xy', 'xyz']) {
      for (const encoding of ['base64', 'base64url'] as const) {
        const echo = Buffer.from(`${before}${REAL}${after}`).toString(encoding)
        const result = await redactBody(redactorOf([secret()]), Buffer.from(`Basic ${echo} `))
        const decoded = Buffer.from(result.slice('Basic '.length), encoding).toString('latin1')
        expect(decoded).toHaveLength(before.length + REAL.length + after.length)
        expect(decoded.slice(before.length + 1, -after.length - 1)).toBe(
          SURROGATE.slice(1, -1).slice(0, decoded.length - before.length - after.length - 2),
        )
      }
    }
  })

  it('becomes the surrogate in every header, name and trailer', () => {
    const headers = [
      ['Location', `https://x/?token=${REAL}#${REAL}`],
      ['Set-Cookie', `a=${REAL}; Path=/`],
      [`X-${REAL}`, `Basic ${base64(`me:${REAL}`)}`],
      ['X-Latin', 'é'],
    ] as const
    const redacted = redactorOf([secret()]).redactHeaders(headers)
    expect(redacted[0]).toEqual(['Location', `https://x/?token=${SURROGATE}#${SURROGATE}`])
    expect(redacted[1]).toEqual(['Set-Cookie', `a=${SURROGATE}; Path=/`])
    expect(redacted[2]?.[0]).toBe(`X-${SURROGATE}`)
    expect(Buffer.from(redacted[2]?.[1].slice(6) ?? '', 'base64').toString()).not.toContain(REAL)
    expect(redacted[3]).toEqual(['X-Latin', 'é'])
  })

  it('that a header carried with one byte per character is found', () => {
    const latin = secret({ value: 'pässwörd-ünd-so', surrogate: 'surrogate-01234' })
    expect(redactorOf([latin]).redactHeaders([['X-Echo', latin.value]])).toEqual([['X-Echo', latin.surrogate]])
  })

  it('of few characters with many bytes each is found in text', () => {
    expect(redactText([secret({ value: '秘密の合言葉です', surrogate: 'surrogat' })], '秘密の合言葉です')).toBe('surrogat')
  })

  it('is the same for every division into chunks, through gzip too', async () => {
    const redactor = redactorOf([secret(), secret({ name: 'other', value: 'ghp_rEaLother', surrogate: 'ghp_surrother' })])
    const text = `${REAL}ghp_rEaL${REAL}, ghp_rEaLother ${base64(`u:${REAL}`)} ${REAL.slice(0, -1)}`
    const expected = await redactBody(redactor, Buffer.from(text))
    expect(expected).not.toContain(REAL)
    expect(expected.startsWith(`${SURROGATE}ghp_rEaL${SURROGATE}, ghp_surrother `)).toBe(true)
    const packed = gzipSync(text)
    for (let cut = 0; cut <= text.length; cut++) expect(await redactBody(redactor, Buffer.from(text), null, [cut])).toBe(expected)
    for (let cut = 0; cut <= packed.length; cut++) expect(await redactBody(redactor, packed, 'gzip', [cut])).toBe(expected)
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(), { maxLength: 300 }), fc.boolean(), async (cuts, isPacked) => {
        expect(await redactBody(redactor, isPacked ? packed : Buffer.from(text), isPacked ? 'gzip' : null, cuts)).toBe(expected)
      }),
    )
  })

  it('never remains, for random values and surroundings', async () => {
    const value = fc.oneof(
      fc.string({ minLength: 8, maxLength: 60 }),
      fc.string({ unit: 'grapheme', minLength: 8, maxLength: 30 }),
    )
    const around = fc.string({ maxLength: 20 })
    await fc.assert(
      fc.asyncProperty(value, around, around, fc.array(fc.nat(), { maxLength: 20 }), async (real, before, after, cuts) => {
        fc.pre(/[A-Za-z0-9]/.test(real) && real.isWellFormed())
        const surrogate = makeSurrogate(real)
        const forms = [real, JSON.stringify(real).slice(1, -1), encodeURIComponent(real)]
        const text = forms.map(form => `${before}${form}${after}`).join('|')
        const redacted = await redactBody(redactorOf([secret({ value: real, surrogate })]), gzipSync(text), 'gzip', cuts)
        for (const form of forms) expect(redacted.includes(form)).toBe(false)
        const echo = await redactBody(
          redactorOf([secret({ value: real, surrogate })]),
          Buffer.from(base64(before + real + after)),
          null,
          cuts,
        )
        expect(Buffer.from(echo, 'base64').includes(real)).toBe(false)
      }),
      { numRuns: 300 },
    )
  })
})

describe('the length of a reply', () => {
  it('stays the same where value and surrogate have the same', async () => {
    expect(redactorOf([secret()]).changesLength).toBe(false)
    expect(redactorOf([secret({ value: 'with/slash' })]).changesLength).toBe(true)
    expect(redactorOf([secret({ value: `${REAL}x` })]).changesLength).toBe(true)
  })

  it('never changes for AWS keys in a body, nor after an upgrade', async () => {
    const surrogate = { access_key_id: 'AKIASURROGATE0000001', secret_access_key: 's'.repeat(40), session_token: 'T'.repeat(512) }
    const value = {
      access_key_id: 'AKIAREAL000000000001',
      secret_access_key: `abc/${'+'.repeat(36)}`,
      session_token: `${'t/'.repeat(300)}==`,
    }
    const aws: SessionSecret = { ...secret(), kind: 'aws', value, surrogate }
    const redactor = redactorOf([aws])
    expect(redactor.changesLength).toBe(false)
    const texts = [value.session_token, encodeURIComponent(value.session_token), value.secret_access_key, value.access_key_id]
    for (const text of texts) {
      const redacted = await redactBody(redactor, Buffer.from(text))
      expect(redacted).toHaveLength(text.length)
      expect(redacted).not.toContain(text)
    }
    const location = `/?X-Amz-Credential=${value.access_key_id}%2F2025&X-Amz-Security-Token=${encodeURIComponent(value.session_token)}`
    expect(redactor.redactHeaders([['Location', location]])).toEqual([
      ['Location', `/?X-Amz-Credential=${surrogate.access_key_id}%2F2025&X-Amz-Security-Token=${surrogate.session_token}`],
    ])
    const longer = redactorOf([secret({ value: `${REAL}+longer` })]).tunnel()
    const text = `frame ${REAL}+longer end`
    longer.end(Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)]))
    expect((await buffer(longer)).subarray(2).toString()).toMatch(/^frame ghp_s0Rr.{39} end$/)
  })
})

describe('encodings', () => {
  it.each<[string, (data: string) => Buffer]>([
    ['gzip', gzipSync],
    ['GZIP ', gzipSync],
    ['x-gzip', gzipSync],
    ['deflate', deflateSync],
    ['identity', data => Buffer.from(data)],
    ['', data => Buffer.from(data)],
  ])('%j is read', async (encoding, pack) => {
    expect(await redactBody(redactorOf([secret()]), pack(`x${REAL}y`), encoding)).toBe(`x${SURROGATE}y`)
  })

  it.each(['br', 'zstd', 'compress', 'gzip, gzip', 'gzip, identity', 'unknown', 'aws-chunked'])('%j is refused', encoding => {
    expect(redactorOf([secret()]).body(encoding)).toEqual({ refused: expect.stringMatching(/cannot be searched/) })
  })

  it('an empty body is an empty body', async () => {
    for (const encoding of [null, 'gzip', 'deflate'])
      expect(await redactBody(redactorOf([secret()]), Buffer.alloc(0), encoding)).toBe('')
  })

  it.each<[string, string, Buffer]>([
    ['is cut short', 'gzip', gzipSync('x'.repeat(1000)).subarray(0, -9)],
    ['is no gzip', 'gzip', Buffer.from(REAL)],
    ['is deflate without the header of zlib', 'deflate', deflateRawSync(REAL)],
  ])('a body that %s fails', async (_, encoding, data) => {
    await expect(redactBody(redactorOf([secret()]), data, encoding)).rejects.toThrow()
  })

  it('several gzip members are one body, and a body of many times its size stays a stream', async () => {
    expect(
      await redactBody(redactorOf([secret()]), Buffer.concat([gzipSync(REAL.slice(0, 9)), gzipSync(REAL.slice(9))]), 'gzip'),
    ).toBe(SURROGATE)
    const transform = streamOf(redactorOf([secret()]), 'gzip')
    transform.write(gzipSync(Buffer.alloc(64 * 1024 * 1024)))
    await new Promise(resolve => transform.once('readable', resolve))
    expect(transform.readableLength).toBeLessThan(1024 * 1024)
    transform.destroy()
  })

  it('a reader that goes away ends the decoding, without an error that nobody expects', async () => {
    for (const encoding of [null, 'gzip', 'deflate']) {
      const transform = streamOf(redactorOf([secret()]), encoding)
      transform.write(gzipSync('x'))
      transform.destroy()
      await new Promise(resolve => transform.once('close', resolve))
      expect(transform.errored).toBeNull()
    }
  })

  it('an event of a stream is passed on at once, through gzip too', async () => {
    for (const encoding of [null, 'gzip']) {
      const transform = streamOf(redactorOf([secret()]), encoding)
      const source = encoding === null ? transform : createGzip()
      if (source !== transform) source.pipe(transform)
      for (const event of ['data: one\n\n', `data: ${REAL}\n\n`, 'data: g\n\n']) {
        source.write(event)
        if ('flush' in source && typeof source.flush === 'function') source.flush()
        let received = ''
        for await (const chunk of transform.iterator({ destroyOnReturn: false })) {
          received += String(chunk)
          if (received.endsWith('\n\n')) break
        }
        expect(received).toBe(event.replace(REAL, SURROGATE))
      }
      source.destroy()
      transform.destroy()
    }
  })
})

describe('a redactor', () => {
  it('is null without a value', () => {
    expect(createRedactor([])).toBeNull()
    expect(redactText([], REAL)).toBe(REAL)
  })

  it('leaves short parts of AWS keys alone: they may be ordinary words', () => {
    const keys = { access_key_id: 'test:tester', secret_access_key: 'testing' }
    const surrogate = { access_key_id: 'AKIASURROGATE0000001', secret_access_key: 's'.repeat(40) }
    const aws: SessionSecret = { ...secret(), kind: 'aws', value: keys, surrogate }
    expect(redactText([aws], 'testing test:tester')).toBe('testing AKIASURROGATE0000001')
    expect(createRedactor([{ ...aws, value: { access_key_id: 'x', secret_access_key: 'y' } }])).toBeNull()
  })
})
