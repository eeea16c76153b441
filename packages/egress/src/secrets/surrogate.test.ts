import { SandglassError } from '@sandglass/contract/tables'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { makeAwsSurrogates, makeSurrogate } from './surrogate.ts'

const jwt = (header: unknown, claims: unknown, signature = 'c2lnbmF0dXJlLXNpZ25hdHVyZQ') =>
  [header, claims]
    .map(part => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .concat(signature)
    .join('.')
const claimsOf = (token: string): unknown => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())

describe('a surrogate', () => {
  it.each([
    ['github_pat_11ABCDEFG0aBcDeFgHiJkL_mnop', /^github_pat_[A-Za-z0-9_-]+$/],
    ['ghp_0123456789abcdefABCDEF0123456789abcd', /^ghp_[A-Za-z0-9]+$/],
    ['gho_0123456789abcdefABCDEF', /^gho_[A-Za-z0-9]+$/],
    ['ghu_0123456789abcdefABCDEF', /^ghu_[A-Za-z0-9]+$/],
    ['ghs_0123456789abcdefABCDEF', /^ghs_[A-Za-z0-9]+$/],
    ['ghr_0123456789abcdefABCDEF', /^ghr_[A-Za-z0-9]+$/],
    ['glpat-abcdefgh01234567', /^glpat-[a-z0-9]+$/],
    ['npm_abcdefgh01234567', /^npm_[a-z0-9]+$/],
    ['pypi-AgEIcHlwaS5vcmc', /^pypi-[A-Za-z0-9]+$/],
    ['sk-ant-oat01-abcdEFGH-0123', /^sk-ant-oat01-[A-Za-z0-9_-]+$/],
    ['sk-ant-api03-abcdEFGH0123', /^sk-ant-api03-[A-Za-z0-9]+$/],
    ['sk-ant-abcdefgh', /^sk-ant-[a-z]+$/],
    ['sk-proj-abcdefgh', /^sk-proj-[a-z]+$/],
    ['sk-01234567890', /^sk-[0-9]+$/],
    ['xoxb-12345678-abc', /^xoxb-[a-z0-9_-]+$/],
    ['xoxp-12345678', /^xoxp-[0-9]+$/],
    ['AKIAIOSFODNN7EXAMPLE', /^AKIA[A-Z0-9]+$/],
    ['ASIAIOSFODNN7EXAMPLE', /^ASIA[A-Z0-9]+$/],
    ['PASSWORD', /^[A-Z]+$/],
    ['p@ssw0rd with späce', /^[a-z0-9_-]+$/],
  ])('of %s has its length, prefix and character classes', (value, form) => {
    for (let i = 0; i < 20; i++) {
      expect(makeSurrogate(value)).toMatch(form)
      expect(makeSurrogate(value)).toHaveLength(value.length)
    }
  })

  it('never equals or contains the value, for any value', () => {
    const values = fc.oneof(
      fc.string({ minLength: 8 }),
      fc.stringMatching(/^[01]{8,9}$/),
      fc.string({ minLength: 8, unit: 'binary' }),
    )
    fc.assert(
      fc.property(values, value => {
        fc.pre(/[A-Za-z0-9]/.test(value))
        const surrogate = makeSurrogate(value)
        expect(surrogate).toHaveLength(value.length)
        expect(surrogate.includes(value)).toBe(false)
        expect(surrogate).toMatch(/^[A-Za-z0-9_-]+$/)
      }),
    )
  })

  it('is drawn again when it equals the value', () => {
    let calls = 0
    const random = (count: number) => Buffer.alloc(count, calls++ === 0 ? 0 : 1)
    expect(makeSurrogate('aaaaaaaa', random)).toBe('bbbbbbbb')
  })

  it('has every character of its alphabet about equally often', () => {
    const counts = new Map<string, number>()
    const text = makeSurrogate(`aZ9${'x'.repeat(65_000)}`)
    for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1)
    expect(counts.size).toBe(62)
    const expected = text.length / 62
    // Eight standard deviations: a fair draw fails this less than once in 10^13 runs.
    for (const count of counts.values()) expect(Math.abs(count - expected)).toBeLessThan(8 * Math.sqrt(expected))
  })

  it('does not use bytes that would make some characters likelier', () => {
    const drawn = [Buffer.alloc(8, 255), Buffer.from([234, 233, 0, 1, 2, 3, 4, 5]), Buffer.from([6])]
    const random = () => drawn.shift() ?? Buffer.alloc(0)
    expect(makeSurrogate('abcdefgh', random)).toBe('zabcdefg')
  })

  it.each(['', 'short', '1234567', 'ghp_1234567', 'sk-ant-api03-abc', 'glpat-', '--------', '!!!!!!!!!!!!!!!!!!!!!!!!!'])(
    'of %j is refused: it could occur by chance',
    value => {
      expect(() => makeSurrogate(value)).toThrow(SandglassError)
      expect(() => makeSurrogate(value)).toThrow(/too short or too uniform/)
    },
  )

  it('error does not quote the value', () => {
    expect(() => makeSurrogate('ghp_abc')).not.toThrow(/ghp_abc/)
  })
})

describe('a surrogate of a JWT', () => {
  const claims = {
    iss: 'https://auth.example.com/',
    exp: 1_900_000_000,
    iat: 1_700_000_000,
    admin: true,
    none: null,
    empty: '',
    aud: ['one', 'two'],
    'https://api.example.com/auth': { account_id: 'acc-1234', plan: 'pro', deep: [{ user: 'u1' }] },
  }

  it('decodes, with the same header, the same expiry and other strings', () => {
    const value = jwt({ alg: 'RS256', kid: 'key-1' }, claims)
    const surrogate = makeSurrogate(value)
    expect(surrogate).not.toBe(value)
    expect(surrogate.split('.')[0]).toBe(value.split('.')[0])
    expect(surrogate.split('.')[2]).toHaveLength(value.split('.')[2]?.length ?? 0)
    expect(surrogate.split('.')[2]).not.toBe(value.split('.')[2])
    expect(claimsOf(surrogate)).toEqual({
      ...claims,
      iss: expect.stringMatching(/^[a-z_-]{25}$/),
      aud: [expect.stringMatching(/^[a-z]{3}$/), expect.stringMatching(/^[a-z]{3}$/)],
      'https://api.example.com/auth': {
        account_id: expect.stringMatching(/^[a-z0-9_-]{8}$/),
        plan: expect.stringMatching(/^[a-z]{3}$/),
        deep: [{ user: expect.stringMatching(/^[a-z0-9]{2}$/) }],
      },
    })
    expect(surrogate).not.toContain(Buffer.from('auth.example.com').toString('base64url').slice(2, -3))
  })

  it('never contains the value, whatever the claims are', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), data => {
        const value = jwt({ alg: 'HS256' }, data)
        const surrogate = makeSurrogate(value)
        expect(surrogate.includes(value)).toBe(false)
        expect(surrogate).toMatch(/^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/)
      }),
    )
  })

  it.each([
    ['has no alg', jwt({ typ: 'JWT' }, { a: 'b' })],
    ['has claims that are no object', jwt({ alg: 'HS256' }, 'text')],
    ['is not JSON', 'abcdefgh.ijklmnop.qrstuvwx'],
    ['has four parts', `${jwt({ alg: 'HS256' }, {})}.more`],
    ['has claims that are nested too deep', jwt({ alg: 'HS256' }, { a: JSON.parse('['.repeat(2000) + ']'.repeat(2000)) })],
  ])('is an ordinary surrogate if the value %s', (_, value) => {
    expect(makeSurrogate(value)).toHaveLength(value.length)
    expect(makeSurrogate(value)).not.toContain('.')
  })
})

describe('surrogates of AWS keys', () => {
  const keys = { access_key_id: 'AKIAIOSFODNN7EXAMPLE', secret_access_key: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY' }

  it('have the form of AWS keys', () => {
    const surrogate = makeAwsSurrogates(keys)
    expect(surrogate.access_key_id).toMatch(/^AKIA[A-Z0-9]{16}$/)
    expect(surrogate.secret_access_key).toMatch(/^[A-Za-z0-9+/]{40}$/)
    expect(Object.keys(surrogate)).toEqual(['access_key_id', 'secret_access_key'])
  })

  it('have a session token if the keys have one', () => {
    const surrogate = makeAwsSurrogates({ ...keys, access_key_id: 'ASIAIOSFODNN7EXAMPLE', session_token: 'FwoGZXIvYXdz' })
    expect(surrogate.access_key_id).toMatch(/^ASIA[A-Z0-9]{16}$/)
    expect(surrogate.session_token).toMatch(/^[A-Za-z0-9]{512}$/)
  })

  it('are made for keys of other servers, too', () => {
    expect(makeAwsSurrogates({ access_key_id: 'test:tester', secret_access_key: 'testing' }).access_key_id).toMatch(/^AKIA/)
  })
})
