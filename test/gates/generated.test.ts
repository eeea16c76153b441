import { AGENT_FACTS, ERRORS, OUTCOMES } from '@sandglass/contract/tables'
import { describe, expect, it } from 'vitest'
import { PAGES } from '../../tools/gen/pages.ts'
import { FILES, isGenerated, isTest, read } from './tree.ts'

const CODES = Object.keys(ERRORS)
// Upper-case words with an underscore that are no error codes: variables of the environment, and constants of the contract.
const OTHER_WORDS =
  /^(SANDGLASS_|SESSION_LIFECYCLE|ALL_PROXY|HTTPS?_PROXY|NO_(COLOR|PROXY)|TALLY_FILE|OPAQUE_FIELDS|FILE_ROOTS|LISTEN_|O_|AI_|IS_SANDBOX)/

const KEY_VARIABLES = Object.values(AGENT_FACTS).flatMap(({ credentials }) => credentials.map(({ settings }) => settings.env))
const KNOWN: readonly (string | null)[] = [...CODES, ...OUTCOMES, ...KEY_VARIABLES]

describe('generated pages', () => {
  it.each(Object.keys(PAGES))('%s is what `tools/dev gen` would write', async path => {
    expect(FILES).toContain(path)
    expect(read(path)).toBe(await PAGES[path]?.())
  })

  it('nothing else lies among the generated files', () => {
    expect(FILES.filter(path => isGenerated(path) && path !== 'package-lock.json' && !(path in PAGES))).toEqual([])
  })
})

describe('error codes', () => {
  it('the errors page has exactly the codes of the table', () => {
    const listed = [...read('docs/reference/errors.md').matchAll(/^\| `([A-Z_]+)`/gm)].map(m => m[1])
    expect(listed).toEqual(CODES)
  })

  it('a code that a page names exists', () => {
    const pages = FILES.filter(path => path.endsWith('.md') && !isGenerated(path))
    const named = pages.flatMap(path =>
      [...read(path).matchAll(/`([A-Z]+(?:_[A-Z]+)+)`/g)].map(m => ({ path, code: m[1] ?? '' })),
    )
    expect(named.filter(n => !OTHER_WORDS.test(n.code) && !KNOWN.includes(n.code))).toEqual([])
  })

  it('every code is used by some part', () => {
    const parts = FILES.filter(
      path => /^(packages|runner)\/.*\.(ts|go)$/.test(path) && !isTest(path) && !path.startsWith('packages/contract/'),
    )
    const source = parts.map(read).join('\n')
    expect(CODES.filter(code => !new RegExp(`\\b${code}\\b`).test(source))).toEqual([])
  })
})
