import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type GraphqlKind, readOperations } from './graphql-document.ts'

const kinds = (document: string) => readOperations(document)?.map(({ kind }) => kind) ?? null

describe('a GraphQL document', () => {
  it.each([
    ['{ viewer { login } }', ['query']],
    ['query { a }', ['query']],
    ['query Q($a: [Int!] = [1, -2.5e3], $b: In = {x: "}"}) @live(if: $a) @x { a(b: {c: [1]}) { d } }', ['query']],
    ['mutation M { a }', ['mutation']],
    ['subscription { a }', ['subscription']],
    ['query A { a } mutation B { b }', ['query', 'mutation']],
    ['fragment F on User @x(y: 1) { id } query { ...F ... on T { a } }', ['query']],
    ['query mutation { a }', ['query']],
    ['query { mutation { b } subscription }', ['query']],
    ['{ a(b: "} mutation { c }") }', ['query']],
    ['{ a(b: "\\"} mutation { c }") }', ['query']],
    ['{ a(b: """" } mutation { c } \\""" """) }', ['query']],
    ['{ a(b: """\n} mutation { c }\n""") }', ['query']],
    ['{ a # } mutation { c }\n}', ['query']],
    ['# comment with ü\nmutation { a }', ['mutation']],
    [',,{ a },,,mutation { b }', ['query', 'mutation']],
    ['{ a }#\rmutation { b }', ['query', 'mutation']],
    ['fragment F on T { a }', []],
    ['', []],
    ['{a:b c:d(e:$f g:true h:null i:ENUM)@skip(if:true)}', ['query']],
  ])('%j has %j', (document, expected) => {
    expect(kinds(document)).toEqual(expected)
  })

  it('has names of operations', () => {
    expect(readOperations('query A { a } mutation B { b } { c }')).toEqual([
      { kind: 'query', name: 'A' },
      { kind: 'mutation', name: 'B' },
      { kind: 'query', name: null },
    ])
  })

  it.each([
    ['an unclosed selection', '{ a'],
    ['a selection that is closed twice', '{ a } }'],
    ['brackets that do not match', '{ a(b: [1) }'],
    ['another closing bracket', '{ a(b: 1] }'],
    ['closing brackets in the wrong order', '{ a(b: [1)] }'],
    ['an operation without selection', 'query Q'],
    ['a word that is no definition', 'Query { a }'],
    ['a type definition', 'type T { a: Int }'],
    ['a schema extension', 'extend type T { a: Int }'],
    ['a fragment without type', 'fragment F { a }'],
    ['a fragment named on', 'fragment on on T { a }'],
    ['an unclosed string', '{ a(b: "x) }'],
    ['a line end in a string', '{ a(b: "x\n") }'],
    ['an unknown escape', '{ a(b: "\\x") }'],
    ['an unclosed block string', '{ a(b: """x") }'],
    ['a character that is no token', '{ a; b }'],
    ['a letter outside ASCII', '{ ü }'],
    ['a byte order mark', '\ufeff{ a }'],
    ['a line separator in a comment', '{ a } #\u2028mutation { b }'],
    ['a next-line character in a comment', '{ a } #\u0085mutation { b }'],
    ['NUL', '{ a \0 }'],
    ['a directive without name', 'query @ { a }'],
    ['two dots', '{ ..F }'],
    ['a percent sign', '{ a%7D }'],
  ])('with %s is not readable', (_, document) => {
    expect(readOperations(document)).toBeNull()
  })

  it('of ten thousand nested selections is read', () => {
    expect(kinds(`${'{a'.repeat(10_000)}${'}'.repeat(10_000)}`)).toEqual(['query'])
  })
})

const text = fc.string({
  unit: fc.constantFrom('a', '{', '}', '(', ')', '#', '\\', '"', ' ', 'mutation { x }', 'ü'),
  maxLength: 8,
})
const value = fc.oneof(
  text.map(content => JSON.stringify(content)),
  text.map(content => `"""${content.replaceAll('\\', '/').replaceAll('"', "'")}"""`),
  fc.constantFrom('1', '-2.5e3', 'true', '$v', 'ENUM', '[1 2]', '{a: "}"}', '[]'),
)
const ignored = fc.oneof(
  fc.constantFrom(' ', '\n', ',', '\t', '\r\n'),
  text.map(content => `#${content}\n`),
)
const { selection } = fc.letrec<{ selection: string }>(tie => ({
  selection: fc
    .array(
      fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom('a', 'mutation', '...F', 'b: c'),
        fc.tuple(ignored, value).map(([gap, argument]) => `a(x:${gap}${argument})`),
        fc.tuple(fc.constantFrom('a', '... on T', 'query'), tie('selection')).map(parts => parts.join('')),
      ),
      { minLength: 1, maxLength: 3 },
    )
    .chain(fields => ignored.map(gap => `{${fields.join(gap)}${gap}}`)),
}))
const definition: fc.Arbitrary<{ source: string; kind: GraphqlKind | null }> = fc
  .tuple(fc.constantFrom('query', 'mutation', 'subscription', '', 'fragment'), ignored, selection, value)
  .map(([keyword, gap, body, argument]) => {
    if (keyword === 'fragment') return { source: `fragment${gap} F${gap} on${gap} T${body}`, kind: null }
    if (keyword === '') return { source: body, kind: 'query' }
    const source = `${keyword}${gap} N($v: T = ${argument})${gap}@d(x: ${argument})${gap}${body}`
    return { source, kind: keyword as GraphqlKind }
  })

describe('generated GraphQL documents', () => {
  it('are read as the operations that they were made of', () => {
    fc.assert(
      fc.property(fc.array(definition, { maxLength: 5 }), ignored, (definitions, gap) => {
        const expected = definitions.flatMap(({ kind }) => (kind === null ? [] : [kind]))
        expect(kinds(definitions.map(({ source }) => source).join(gap))).toEqual(expected)
      }),
      { numRuns: 1000 },
    )
  })

  it('never hide a definition that follows them, whatever they contain', () => {
    const soup = fc.string({
      unit: fc.constantFrom(
        '{',
        '}',
        '(',
        ')',
        '"',
        '"""',
        '\\',
        '#',
        '\n',
        'query',
        'fragment',
        ' on ',
        'a',
        ' ',
        '@',
        '$',
        '[',
        ']',
        '\u2028',
        '0x',
        '...',
      ),
      maxLength: 30,
    })
    fc.assert(
      fc.property(fc.oneof(soup, fc.string({ unit: 'binary' })), start => {
        const before = kinds(start)
        const after = kinds(`${start}\nmutation Last { x }`)
        if (before !== null) expect(after).toEqual([...before, 'mutation'])
      }),
      { numRuns: 5000 },
    )
  })
})
