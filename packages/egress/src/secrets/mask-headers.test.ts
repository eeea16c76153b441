import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { HeaderList } from '../http/message.ts'
import { maskRequest } from './mask.ts'
import { type MaskedSecret, REAL, request, SURROGATE, secret } from './secrets.fixture.ts'

const headersOf = (secrets: MaskedSecret[], headers: HeaderList) => maskRequest(secrets, request(headers)).head.headers
const basic = (credentials: string) => `Basic ${Buffer.from(credentials).toString('base64')}`

describe('a surrogate in a header', () => {
  it.each<[string, string]>([
    ['a bearer token', 'Bearer %'],
    ['another scheme', 'token %'],
    ['no scheme', '%'],
    ['mixed case and spaces', ' bEaReR   % '],
    ['a quoted token', 'Token token="%"'],
  ])('is replaced in %s', (_, form) => {
    const result = maskRequest([secret()], request([['Authorization', form.replace('%', SURROGATE)]]))
    expect(result.head.headers).toEqual([['Authorization', form.replace('%', REAL)]])
    expect(result).toMatchObject({ masked: 1, names: ['token'], stripped: [], refused: null })
  })

  it('is replaced whatever the case of the header name, and other headers stay', () => {
    const headers: HeaderList = [
      ['Accept', SURROGATE],
      ['aUTHORIZATION', `Bearer ${SURROGATE}`],
      ['X-Other', 'x'],
    ]
    expect(headersOf([secret()], headers)).toEqual([
      ['Accept', SURROGATE],
      ['aUTHORIZATION', `Bearer ${REAL}`],
      ['X-Other', 'x'],
    ])
  })

  it('is replaced wherever a wildcard matches the name', () => {
    const result = maskRequest(
      [secret({ headers: ['x-*-key'] })],
      request([
        ['X-Api-Key', SURROGATE],
        ['X-Key', SURROGATE],
      ]),
    )
    expect(result.head.headers).toEqual([
      ['X-Api-Key', REAL],
      ['X-Key', SURROGATE],
    ])
  })

  it('is counted for each insertion', () => {
    const listed = secret({ headers: ['x-key', 'authorization'] })
    const result = maskRequest(
      [listed],
      request([
        ['X-Key', `${SURROGATE}.${SURROGATE}`],
        ['Authorization', SURROGATE],
      ]),
    )
    expect(result).toMatchObject({ masked: 3, names: ['token'] })
  })

  it.each(['Proxy-Authorization', 'Host', 'Connection', 'Content-Length', 'Transfer-Encoding', 'TE', 'Upgrade'])(
    'is never replaced in %s',
    name => {
      const greedy = secret({ headers: ['*', name.toLowerCase()] })
      const result = maskRequest([greedy], request([[name, SURROGATE]]))
      expect(result.head.headers).toEqual([[name, SURROGATE]])
      expect(result).toMatchObject({ masked: 0, stripped: [] })
    },
  )

  it('is replaced in cookies only if they are listed by name', () => {
    const cookies: HeaderList = [
      ['cookie', 'a=1'],
      ['cookie', `session=${SURROGATE}`],
      ['cookie', 'b=2'],
    ]
    expect(headersOf([secret({ headers: ['*'] })], cookies)).toEqual(cookies)
    expect(headersOf([secret({ headers: ['cookie'] })], cookies)).toEqual([['cookie', `a=1; session=${REAL}; b=2`]])
  })

  it('is replaced in the protocols of a WebSocket only if they are listed by name', () => {
    const protocols: HeaderList = [
      ['Sec-WebSocket-Protocol', 'realtime'],
      ['Sec-WebSocket-Protocol', `api-key.${SURROGATE}, beta`],
    ]
    const mask = (headers: string[], value = REAL) =>
      maskRequest([secret({ headers, value })], request(protocols, { upgrade: 'websocket' }))
    expect(mask(['*']).head.headers).toEqual(protocols)
    expect(mask(['sec-websocket-protocol'])).toMatchObject({
      head: { headers: [['Sec-WebSocket-Protocol', `realtime, api-key.${REAL}, beta`]] },
      stripped: [],
    })
    expect(mask(['sec-websocket-protocol'], 'not/a, token').refused).toMatch(/character/)
  })

  it('leaves one header of several with its name', () => {
    const result = maskRequest(
      [secret()],
      request([
        ['Authorization', 'Bearer theirs'],
        ['authorization', `Bearer ${SURROGATE}`],
        ['AUTHORIZATION', 'Basic eDp5'],
      ]),
    )
    expect(result.head.headers).toEqual([['Authorization', `Bearer ${REAL}`]])
    expect(result).toMatchObject({ masked: 1, stripped: ['authorization'] })
  })
})

describe('Basic credentials', () => {
  // git sends the token as password of x-access-token, or as user name.
  it.each(['x-access-token:%', '%:x-oauth-basic', '%:', '%', 'a:%', 'ab:%', 'abc:%', 'ü:%', '%:%'])('%j get the value', form => {
    const result = maskRequest([secret()], request([['Authorization', basic(form.replaceAll('%', SURROGATE))]]))
    expect(result.head.headers).toEqual([['Authorization', basic(form.replaceAll('%', REAL))]])
    expect(result.masked).toBe(form.split('%').length - 1)
  })

  it('get the value in any position and with any padding', () => {
    const padding = fc.constantFrom('kept', 'none', 'too much')
    const scheme = fc.constantFrom('Basic ', 'basic ', 'BASIC\t', ' bAsIc  ')
    const user = fc.stringMatching(/^[a-zA-Z0-9@.]{0,9}$/)
    fc.assert(
      fc.property(user, user, scheme, padding, fc.boolean(), (before, after, word, pad, isUrlSafe) => {
        const encoded = Buffer.from(`${before}:${SURROGATE}${after}`).toString(isUrlSafe ? 'base64url' : 'base64')
        const padded = pad === 'kept' ? encoded : `${encoded.replace(/=+$/, '')}${pad === 'none' ? '' : '==='}`
        const headers = headersOf([secret()], [['Authorization', word + padded]])
        expect(headers).toEqual([['Authorization', basic(`${before}:${REAL}${after}`)]])
      }),
    )
  })

  it('get a value of another length, and one that is not ASCII', () => {
    const value = 'pässwörd → longer than the surrogate is'
    expect(headersOf([secret({ value })], [['Authorization', basic(`me:${SURROGATE}`)]])).toEqual([
      ['Authorization', basic(`me:${value}`)],
    ])
  })

  it('with a control character are foreign: a server may end the text there', () => {
    const result = maskRequest([secret()], request([['Authorization', basic(`me:theirs\0${SURROGATE}`)]]))
    expect(result).toMatchObject({ head: { headers: [] }, stripped: ['authorization'] })
    expect(
      maskRequest([secret({ value: 'line\nbreak' })], request([['Authorization', basic(`me:${SURROGATE}`)]])).refused,
    ).toMatch(/character/)
  })

  it('are not decoded in other headers', () => {
    const other: HeaderList = [['X-Key', basic(`me:${SURROGATE}`)]]
    expect(headersOf([secret({ headers: ['x-*'] })], other)).toEqual(other)
  })
})

describe('a foreign credential', () => {
  it.each<[string, string]>([
    ['another token', 'Bearer theirs'],
    ['Basic without surrogate', basic('user:password')],
    ['nothing', ''],
    ['a key in front of the surrogate', `Bearer theirs ${SURROGATE}`],
    ['a key after the surrogate', `Bearer ${SURROGATE} theirs`],
    ['a list', `Bearer theirs,Bearer ${SURROGATE}`],
  ])('is removed from an exactly named header: %s', (_, value) => {
    const headers: HeaderList = [
      ['Authorization', value],
      ['Accept', '*/*'],
    ]
    expect(maskRequest([secret()], request(headers))).toMatchObject({
      head: { headers: [['Accept', '*/*']] },
      stripped: ['authorization'],
      masked: 0,
    })
  })

  it('stays if the secret allows it, or if a wildcard names the header', () => {
    const headers: HeaderList = [
      ['Authorization', 'Bearer theirs'],
      ['authorization', 'Bearer more'],
    ]
    expect(headersOf([secret({ allow_foreign_credentials: true })], headers)).toEqual(headers)
    expect(headersOf([secret({ headers: ['auth*'] })], headers)).toEqual(headers)
  })

  it('stays on hosts and paths outside of the scope', () => {
    const head = request([['Authorization', 'Bearer theirs']], { host: 'other.example.com' })
    expect(maskRequest([secret()], head)).toMatchObject({ head, stripped: [] })
  })
})

describe('several secrets', () => {
  const other = secret({
    name: 'other',
    value: 'OTHER-real-value',
    surrogate: 'OTHER-surrogate-',
    headers: ['authorization', 'x-key'],
  })

  it('with overlapping scopes each find their surrogate, and neither is foreign to the other', () => {
    const secrets = [secret(), other]
    expect(headersOf(secrets, [['Authorization', `Bearer ${SURROGATE}`]])).toEqual([['Authorization', `Bearer ${REAL}`]])
    expect(headersOf(secrets, [['Authorization', `Bearer ${other.surrogate}`]])).toEqual([
      ['Authorization', `Bearer ${other.value}`],
    ])
    const both = maskRequest(
      secrets,
      request([
        ['Authorization', basic(`${SURROGATE}:${other.surrogate}`)],
        ['X-Key', other.surrogate],
      ]),
    )
    expect(both.head.headers).toEqual([
      ['Authorization', basic(`${REAL}:${other.value}`)],
      ['X-Key', other.value],
    ])
    expect(both).toMatchObject({ masked: 3, names: ['token', 'other'] })
  })

  it('of which one is of AWS leave its signature for `resignAws`', () => {
    const keys = { access_key_id: 'ASIASURROGATE0000002', secret_access_key: 's'.repeat(40), session_token: 'T'.repeat(512) }
    const { value: _, surrogate: __, ...settings } = secret({ headers: ['authorization', 'x-amz-security-token'] })
    const aws = { ...settings, kind: 'aws' as const, name: 'cloud', value: { ...keys, access_key_id: 'real' }, surrogate: keys }
    const signed: HeaderList = [
      [
        'Authorization',
        `AWS4-HMAC-SHA256 Credential=${keys.access_key_id}/20250314/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0`,
      ],
      ['X-Amz-Security-Token', keys.session_token],
    ]
    expect(maskRequest([secret(), aws], request(signed))).toMatchObject({ head: { headers: signed }, stripped: [], masked: 0 })
    const foreign: HeaderList = [
      ['Authorization', 'AWS4-HMAC-SHA256 Credential=AKIATHEIRS/…'],
      ['X-Amz-Security-Token', 'theirs'],
    ]
    expect(maskRequest([aws], request(foreign))).toMatchObject({
      head: { headers: [] },
      stripped: ['authorization', 'x-amz-security-token'],
    })
  })
})
