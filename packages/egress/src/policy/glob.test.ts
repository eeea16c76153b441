import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { matchesGlob } from './glob.ts'

describe('a pattern', () => {
  it.each([
    ['example.com', 'example.com'],
    ['*.example.com', 'a.example.com'],
    ['*.example.com', 'a.b.example.com'],
    ['api-?.example.com', 'api-1.example.com'],
    ['/api/*', '/api/'],
    ['/api/*', '/api/x/y'],
    ['/api*', '/api'],
    ['/*/info/refs', '/a/b/info/refs'],
    ['*', ''],
    ['**', 'x'],
    ['a*b*c', 'a-b-b-c'],
    ['[ab]', '[ab]'],
    ['', ''],
    ['/a{b,c}+.$^|()', '/a{b,c}+.$^|()'],
  ])('%j matches %j', (pattern, text) => {
    expect(matchesGlob(pattern, text)).toBe(true)
  })

  it.each([
    ['*.example.com', 'example.com'],
    ['*.example.com', 'badexample.com'],
    ['*.example.com', 'a.example.com.evil.com'],
    ['example.com', 'a.example.com'],
    ['example.com', 'exampleXcom'],
    ['/api', '/api/x'],
    ['/api', '/ap'],
    ['/api/*', '/api'],
    ['?', ''],
    ['?', 'ab'],
    ['[ab]', 'a'],
    ['', 'x'],
    ['a*', 'ba'],
    ['*a', 'ab'],
  ])('%j does not match %j', (pattern, text) => {
    expect(matchesGlob(pattern, text)).toBe(false)
  })

  const pattern = fc.string({ unit: fc.constantFrom('a', 'b', '.', '/', '*', '?', '[', ']', '\n'), maxLength: 12 })
  const text = fc.string({ unit: fc.constantFrom('a', 'b', '.', '/', '[', ']', '\n', '*'), maxLength: 16 })

  it('means the same as a regular expression made from it', () => {
    fc.assert(
      fc.property(pattern, text, (p, t) => matchesGlob(p, t) === byRegExp(p, t)),
      { numRuns: 3000 },
    )
  })

  it('means the same as a table of all prefixes', () => {
    fc.assert(
      fc.property(pattern, text, (p, t) => matchesGlob(p, t) === byTable(p, t)),
      { numRuns: 3000 },
    )
  })

  it('with many stars does not need exponential time', () => {
    expect(matchesGlob(`${'*a'.repeat(200)}b`, 'a'.repeat(8000))).toBe(false)
  })
})

function byRegExp(pattern: string, text: string): boolean {
  const source = [...pattern].map(c => (c === '*' ? '.*' : c === '?' ? '.' : c.replace(/[^\w]/g, '\\$&'))).join('')
  return new RegExp(`^(?:${source})$`, 's').test(text)
}

/** Row p has, for each t, whether the first p characters of the pattern match the first t of the text. */
function byTable(pattern: string, text: string): boolean {
  let row = Array.from({ length: text.length + 1 }, (_, t) => t === 0)
  for (const c of pattern) {
    const next: boolean[] = [c === '*' && row[0] === true]
    for (let t = 1; t <= text.length; t++) {
      const one = row[t - 1] === true && (c === '?' || c === text[t - 1])
      next.push(c === '*' ? row[t] === true || next[t - 1] === true : one)
    }
    row = next
  }
  return row[text.length] === true
}
