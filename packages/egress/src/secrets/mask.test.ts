import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { maskRequest } from './mask.ts'
import { replaceInBody } from './replace/replace.ts'
import { type MaskedSecret, pieces, REAL, request, SURROGATE, secret } from './secrets.fixture.ts'

describe('a request that must not be sent', () => {
  it.each(['line\nbreak', 'carriage\rreturn', 'nul\0nulnul', 'ünïcode → arrow', 'escape\x1b[0m'])(
    'has a value that no header can have: %j',
    value => {
      const result = maskRequest([secret({ value })], request([['Authorization', `Bearer ${SURROGATE}`]]))
      expect(result.refused).toMatch(/the secret token has a character that the header authorization cannot have/)
      expect(JSON.stringify(result)).not.toContain(JSON.stringify(value).slice(1, -1))
      expect(result).toMatchObject({ masked: 0, names: [] })
    },
  )

  it('is sent if such a value is not inserted', () => {
    expect(maskRequest([secret({ value: 'line\nbreak' })], request([['Accept', '*/*']]))).toMatchObject({ refused: null })
  })

  it.each(['Bearer\r\n x', 'Bearer x\ny', 'a\0b'])('has a folded header: %j', value => {
    expect(maskRequest([secret()], request([['X-Any', value]])).refused).toMatch(/line break/)
  })

  it('has a value that is too short to be found in a reply', () => {
    expect(maskRequest([secret({ value: 'short' })], request([])).refused).toMatch(/too short/)
  })
})

describe('the query', () => {
  const inQuery = secret({ query: true, headers: [], value: 'real/value+with=signs & more' })
  const encoded = encodeURIComponent(inQuery.value)
  const percent = [...SURROGATE].map(c => `%${c.charCodeAt(0).toString(16)}`).join('')

  it.each([
    [`/a?key=${SURROGATE}&b=1`, `/a?key=${encoded}&b=1`, 1],
    [`/a?key=${percent}`, `/a?key=${encoded}`, 1],
    [`/a?x=%zz%&key=${SURROGATE.replace('_', '%5f')}`, `/a?x=%zz%&key=${encoded}`, 1],
    [`/a?a=${SURROGATE}&b=${SURROGATE}`, `/a?a=${encoded}&b=${encoded}`, 2],
    [`/${SURROGATE}?a=%20b`, `/${SURROGATE}?a=%20b`, 0],
    [`/${SURROGATE}`, `/${SURROGATE}`, 0],
  ])('of %s gets the value', (target, expected, masked) => {
    expect(maskRequest([inQuery], request([], { target }))).toMatchObject({ head: { target: expected }, masked })
  })

  it('stays as it is unless the secret asks for it', () => {
    const head = request([], { target: `/?key=${SURROGATE}` })
    expect(maskRequest([secret()], head)).toMatchObject({ head, masked: 0 })
  })
})

describe('the body', () => {
  const value = 'real "value"/+ü'
  const inBody = secret({ body: true, value })
  const replace = async (contentType: string, text: string, cuts: number[] = []) => {
    const { bodySecrets } = maskRequest([inBody], request([['Content-Type', contentType]]))
    return (await buffer(Readable.from(pieces(Buffer.from(text), cuts)).pipe(replaceInBody(bodySecrets)))).toString()
  }

  it('is left alone unless the secret asks for it', () => {
    expect(maskRequest([secret()], request([]))).toMatchObject({ bodySecrets: [], bodyChangesLength: false })
  })

  it('gets the value in the form that its type demands', async () => {
    expect(JSON.parse(await replace('application/json; charset=utf-8', JSON.stringify({ key: SURROGATE })))).toEqual({
      key: value,
    })
    expect(JSON.parse(await replace('application/vnd.api+json', JSON.stringify([SURROGATE])))).toEqual([value])
    const form = await replace('application/x-www-form-urlencoded', `a=1&key=${SURROGATE}`)
    expect(new URLSearchParams(form).get('key')).toBe(value)
    expect(await replace('text/plain', `key: ${SURROGATE}!`)).toBe(`key: ${value}!`)
  })

  it('says whether its length can change', () => {
    const mask = (changes: Partial<MaskedSecret>) =>
      maskRequest([secret({ body: true, ...changes })], request([])).bodyChangesLength
    expect(mask({})).toBe(false)
    expect(mask({ value: `${REAL}x` })).toBe(true)
    expect(mask({ value: `${REAL.slice(1)}ü` })).toBe(true)
  })

  it('is the same for every division into chunks', async () => {
    const text = `${SURROGATE}${SURROGATE}ghp_ghp_s0Rr${SURROGATE} x ${SURROGATE.slice(0, -1)}`
    const expected = `${value}${value}ghp_ghp_s0Rr${value} x ${SURROGATE.slice(0, -1)}`
    for (let cut = 0; cut <= text.length; cut++) expect(await replace('text/plain', text, [cut])).toBe(expected)
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(), { maxLength: 200 }), async cuts => {
        expect(await replace('text/plain', text, cuts)).toBe(expected)
      }),
    )
  })
})
