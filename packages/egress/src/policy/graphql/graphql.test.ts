import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type GraphqlRequest, readGraphql } from './graphql.ts'
import { hasDuplicateKeys } from './json-keys.ts'

const bytes = (text: string) => new TextEncoder().encode(text)
const JSON_TYPE: GraphqlRequest['headers'] = [['Content-Type', 'application/json']]

function post(body: unknown, others: Partial<GraphqlRequest> = {}) {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return readGraphql({ method: 'POST', target: '/graphql', headers: JSON_TYPE, body: bytes(text), ...others })
}
const get = (target: string) => readGraphql({ method: 'GET', target, headers: [], body: new Uint8Array() })

describe('a GraphQL request', () => {
  it('with a JSON body has the operations of its document', () => {
    expect(post({ query: '{ a }' })).toEqual(['query'])
    expect(post({ query: 'mutation { a }', variables: { query: '{ b }' }, operationName: null, extensions: {} })).toEqual([
      'mutation',
    ])
    expect(post({ query: 'query A { a } mutation B { b }' })).toEqual(['query', 'mutation'])
  })

  it('with an operationName has the selected operation', () => {
    const query = 'query A { a } mutation B { b }'
    expect(post({ query, operationName: 'A' })).toEqual(['query'])
    expect(post({ query, operationName: 'B' })).toEqual(['mutation'])
    expect(post({ query, operationName: '' })).toEqual(['query', 'mutation'])
    expect(post({ query, operationName: 'C' })).toBe('unreadable')
    expect(post({ query, operationName: 1 })).toBe('unreadable')
    expect(post({ query: 'query A { a } mutation A { b }', operationName: 'A' })).toBe('unreadable')
  })

  it('may be a batch', () => {
    expect(post([{ query: '{ a }' }, { query: 'mutation { b }' }])).toEqual(['query', 'mutation'])
    expect(post([{ query: '{ a }' }, { id: '1' }])).toBe('unreadable')
    expect(post([[{ query: '{ a }' }]])).toBe('unreadable')
    expect(post([])).toEqual([])
  })

  it('may be a document, or a GET with the document in the URL', () => {
    const headers: GraphqlRequest['headers'] = [['content-type', 'application/graphql; charset=utf-8']]
    expect(post('mutation { a }', { headers })).toEqual(['mutation'])
    expect(get('/graphql?query=%7B+a+%7D&variables=%7B%7D')).toEqual(['query'])
    expect(get('/graphql?query=query+A%7Ba%7D+mutation+B%7Bb%7D&operationName=B')).toEqual(['mutation'])
  })

  it.each([
    ['a persisted query', { extensions: { persistedQuery: { version: 1, sha256Hash: 'x' } } }],
    ['a persisted query with its text', { query: '{ a }', extensions: { persistedQuery: {} } }],
    ['a document id', { query: '{ a }', doc_id: '1' }],
    ['a key in other case', { query: '{ a }', Query: 'mutation { b }' }],
    ['a query that is no text', { query: ['{ a }'] }],
    ['extensions that are no object', { query: '{ a }', extensions: 1 }],
    ['no query', {}],
    ['null', 'null'],
    ['text', '"{ a }"'],
    ['duplicate keys', '{"query":"{ a }","query":"mutation { b }"}'],
    ['duplicate keys in other spelling', '{"query":"{ a }","\\u0071uery":"mutation { b }"}'],
    ['broken JSON', '{"query":"{ a }"'],
    ['a byte order mark', '\ufeff{"query":"{ a }"}'],
    ['a document that is no GraphQL', { query: 'mutation' }],
    ['nothing', ''],
  ])('with %s is unreadable', (_, body) => {
    expect(post(body)).toBe('unreadable')
  })

  it.each([
    ['another content type', { headers: [['content-type', 'text/plain']] }],
    ['a form', { headers: [['content-type', 'multipart/form-data; boundary=x']] }],
    ['no content type', { headers: [] }],
    ['two content types', { headers: [...JSON_TYPE, ['content-type', 'application/graphql']] }],
    ['another charset', { headers: [['content-type', 'application/json; charset=utf-16']] }],
    ['an encoded body', { headers: [...JSON_TYPE, ['Content-Encoding', 'gzip']] }],
    ['a document in the URL too', { target: '/graphql?query=mutation%7Ba%7D' }],
    ['an operationName in the URL', { target: '/graphql?operationName=B' }],
    ['an array parameter in the URL', { target: '/graphql?query[]=mutation%7Ba%7D' }],
    ['another method', { method: 'PUT' }],
    ['a method in lower case', { method: 'post' }],
    ['bytes that are not UTF-8', { body: new Uint8Array([0x7b, 0xff, 0x7d]) }],
  ] as [string, Partial<GraphqlRequest>][])('with %s is unreadable', (_, others) => {
    expect(post({ query: '{ a }' }, others)).toBe('unreadable')
  })

  it.each([
    '/graphql',
    '/graphql?query=%7Ba%7D&query=mutation%7Bb%7D',
    '/graphql?query=%7Ba%7D&query[]=mutation%7Bb%7D',
    '/graphql?extensions=%7B%22persistedQuery%22%3A%7B%7D%7D',
    '/graphql?query=%7Ba%7D&extensions=%7B%22persistedQuery%22%3A%7B%7D%7D',
    '/graphql?query=%7Ba%7D&extensions=x',
  ])('GET %s is unreadable', target => {
    expect(get(target)).toBe('unreadable')
  })

  it('with GET and a body is unreadable', () => {
    const request = {
      method: 'GET',
      target: '/graphql?query=%7Ba%7D',
      headers: JSON_TYPE,
      body: bytes('{"query":"mutation { b }"}'),
    }
    expect(readGraphql(request)).toBe('unreadable')
  })

  it('of any bytes is read without an error', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), fc.string({ unit: 'binary' }), (body, target) => {
        const read = readGraphql({ method: 'POST', target: `/?${target}`, headers: JSON_TYPE, body })
        expect(read === 'unreadable' || Array.isArray(read)).toBe(true)
      }),
    )
  })
})

describe('duplicate keys', () => {
  it('are found at every depth, and only within one object', () => {
    expect(hasDuplicateKeys('{"a":[{"b":1,"c":{"b":2}},{"b":"a"}],"d":"a"}')).toBe(false)
    expect(hasDuplicateKeys('{"a":[{"b":1,"c":{"d" :1, "d"\n:2}}]}')).toBe(true)
    expect(hasDuplicateKeys('{"a\\"":1,"a":"\\":{","b":2}')).toBe(false)
  })

  it('are never found in what JSON.stringify writes, and always when a key is repeated', () => {
    fc.assert(fc.property(fc.json(), text => !hasDuplicateKeys(text)))
    fc.assert(
      fc.property(fc.string(), fc.jsonValue(), fc.jsonValue(), (key, a, b) => {
        const name = JSON.stringify(key)
        return hasDuplicateKeys(`[{${name}:${JSON.stringify(a)} , ${name} : ${JSON.stringify(b)}}]`)
      }),
    )
  })
})
