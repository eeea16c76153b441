import { expect, test } from 'vitest'
import { UsageError } from '../../parser/parse.ts'
import { parsePolicy } from './policy-file.ts'

const mistake = (text: string): string => {
  try {
    parsePolicy(text, 'policy.yaml')
  } catch (error) {
    if (error instanceof UsageError) return [error.message, ...error.more].join('\n')
    throw error
  }
  return 'no mistake'
}

test('YAML and JSON become the same policy, under the names of the SDK', () => {
  const expected = {
    include: ['npm'],
    urlPrefixes: [{ host: 'api.example.com', path: '/v1/*', methods: ['GET'] }],
    passThrough: ['*.example.org'],
  }
  const yaml =
    'include: [npm] # packages\nurl_prefixes:\n  - host: api.example.com\n    path: /v1/*\n    methods: [GET]\npass_through: ["*.example.org"]\n'
  const json = JSON.stringify({ include: ['npm'], url_prefixes: expected.urlPrefixes, pass_through: ['*.example.org'] })
  for (const text of [yaml, json]) expect(parsePolicy(text, 'x').policy).toEqual(expected)
  expect(parsePolicy('{}', 'x').policy).toEqual({})
})

test('a wrong value is named with its line and its path', () => {
  const text = `description: mine
domains:
  - example.com

url_prefixes:
  - host: a.example.com
  - host: b.example.com
  # the third
  - path: /x
    host: "*.com"
`
  expect(mistake(text)).toMatch(/^policy\.yaml:10: url_prefixes\[2\]\.host: "\*\.com" is too wide/)
  expect(mistake('domains:\n  - example.com\n  - 7\n')).toBe('policy.yaml:3: domains[1] must be a text')
  expect(mistake('mode: loud\n')).toBe('policy.yaml:1: mode must be one of "enforce", "observe", "ask"')
  expect(mistake('ports:\n  [80,\n   0]\n')).toBe('policy.yaml:3: ports[1] must be at least 1, not 0')
  expect(mistake('\ndomains:\n')).toBe('policy.yaml:2: domains must be a list')
})

test('a missing field is named with the line of what lacks it', () => {
  expect(mistake('url_prefixes:\n  - host: a.example.com\n  - path: /x\n')).toBe('policy.yaml:3: url_prefixes[1].host is missing')
})

test('an unknown key is named with its line and the nearest known key', () => {
  expect(mistake('description: x\ndomans: [example.com]\n')).toBe('policy.yaml:2: unknown key domans; did you mean domains?')
  expect(mistake('urlPrefixes: []\n')).toBe('policy.yaml:1: unknown key urlPrefixes; did you mean url_prefixes?')
  expect(mistake('url_prefixes:\n  - host: a.example.com\n    method: [GET]\n')).toBe(
    'policy.yaml:3: unknown key url_prefixes[0].method; did you mean methods?',
  )
  expect(mistake('url_prefixes:\n  - host: a.example.com\n    graphql:\n      querys: true\n')).toBe(
    'policy.yaml:4: unknown key url_prefixes[0].graphql.querys; did you mean queries?',
  )
  expect(mistake('whatever: 1\nelse: 2\n')).toBe('policy.yaml:1: unknown key whatever\npolicy.yaml:2: unknown key else')
})

test('mistakes are in the order of the file, ten at most', () => {
  expect(mistake('oops: 1\ntcp: [x]\ndomains: ["*.com"]\n').replaceAll(/: .*/g, '')).toBe(
    'policy.yaml:1\npolicy.yaml:2\npolicy.yaml:3',
  )
  const many = mistake(`domains: [${Array.from({ length: 14 }, (_, i) => i).join(', ')}]`)
  expect(many.match(/must be a text/g)).toHaveLength(10)
  expect(many).toMatch(/\nand 4 more$/)
})

test('an entry that goes on in the next line is explained', () => {
  expect(mistake('domains:\n  - a.example.com\n    - b.example.com\n')).toBe(
    'policy.yaml:2: domains[0]: "a.example.com - b.example.com" has a space in it; is the next line indented too far?',
  )
})

test('text that is no policy is refused with the line where it goes wrong', () => {
  expect(mistake('mode: ask\ndomains: [a.example.com\ninclude: [npm]\n')).toBe(
    'policy.yaml:2: the list that begins with [ has no ]',
  )
  expect(mistake('{"domains": []')).toBe('policy.yaml:1: the map that begins with { has no }')
  expect(mistake('domains: []\nmode: ask\n"domains": []\n')).toBe('policy.yaml:3: domains is there twice')
  expect(mistake('domains:\n\t- a.example.com\n')).toMatch(/^policy\.yaml:\d: is neither YAML nor JSON: /)
  expect(mistake('domains:\n  - a.example.com\n  - *.example.com\n')).toBe(
    'policy.yaml:3: write "*.example.com" with quotes: YAML reserves * at the beginning',
  )
  expect(mistake('# nothing\n')).toBe('policy.yaml is empty; write {} for a policy that allows nothing')
  expect(mistake('\n- example.com\n')).toBe('policy.yaml:2: must have keys, such as domains: [example.com]')
  expect(mistake('a: 1\n---\nb: 2\n')).toMatch(/^policy\.yaml:\d: is neither YAML nor JSON: /)
})

test('the place of a value is known also after the policy was accepted', () => {
  const { at } = parsePolicy('# x\ninclude:\n  - npm\n  - mine\n', 'stdin')
  expect([at(['include', 1]), at(['include']), at(['domains', 0])]).toEqual(['stdin:4', 'stdin:2', 'stdin:2'])
})
