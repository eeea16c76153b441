import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readPath } from './path.ts'

describe('the path of a request', () => {
  it.each([
    ['/', '/'],
    ['*', '*'],
    ['/a/b?c=/../d', '/a/b'],
    ['/?', '/'],
    ['/@scope%2fname', '/@scope/name'],
    ['/%C3%BC', '/ü'],
    ['/\u00c3\u00bc', '/ü'],
    ['/a%20b', '/a b'],
    ['/100%25', '/100%'],
    ['/a%3Fb', '/a?b'],
    ['/compare/v1...v2', '/compare/v1...v2'],
    ['/.well-known/x', '/.well-known/x'],
    ['/..a/b..', '/..a/b..'],
    ['/a%2520b', '/a%20b'],
    ['/a;v=1/b', '/a;v=1/b'],
    ['//a//b', '//a//b'],
  ])('%j is %j', (target, path) => {
    expect(readPath(target)).toEqual({ path })
  })

  it.each([
    ['a parent segment', '/a/../b'],
    ['a parent segment at the end', '/a/..'],
    ['nothing but a parent segment', '/..'],
    ['a dot segment', '/a/./b'],
    ['a dot segment at the end', '/a/.'],
    ['encoded dots', '/a/%2e%2e/b'],
    ['half-encoded dots', '/a/.%2E/b'],
    ['an encoded slash before dots', '/a%2f../b'],
    ['everything encoded', '/a%2F%2e%2e%2Fb'],
    ['twice encoded dots', '/a/%252e%252e/b'],
    ['twice encoded slashes', '/a/..%252fb'],
    ['dots that are encoded four times', '/a/%25252e%25252e/b'],
    ['dots with a path parameter', '/a/..;x=1/b'],
    ['encoded dots with a path parameter', '/a/%2e%2e%3b/b'],
    ['a backslash', '/a\\..\\b'],
    ['an encoded backslash', '/a%5c..%5cb'],
    ['a twice encoded backslash', '/a%255cb'],
    ['dots before a space, which some servers drop', '/a/..%20/b'],
    ['dots before an encoded question mark', '/a/..%3f'],
    ['a line break', '/a%0d%0aHost:%20x'],
    ['NUL', '/a%00'],
    ['twice encoded NUL', '/a%2500'],
  ])('is refused with %s', (_, target) => {
    expect(readPath(target)).toEqual({ reason: 'the path has a . or .. segment, a backslash or a control character' })
  })

  it.each([
    ['a lone percent', '/100%', 'the path has invalid percent-encoding'],
    ['half an escape', '/a%2', 'the path has invalid percent-encoding'],
    ['letters that are not hex', '/a%zz', 'the path has invalid percent-encoding'],
    ['an overlong slash', '/a%c0%af..', 'the path has invalid percent-encoding'],
    ['a byte that is not UTF-8', '/%ff', 'the path has invalid percent-encoding'],
    ['endless encoding', `/a%${'25'.repeat(50)}41`, 'the path is percent-encoded too many times'],
    ['a raw NUL', '/a\0', 'the request target has a control character, a space or #'],
    ['a line end', '/a\r\nHost: x', 'the request target has a control character, a space or #'],
    ['a space', '/a b', 'the request target has a control character, a space or #'],
    ['a fragment', '/a#/../b', 'the request target has a control character, a space or #'],
    ['a character that is no byte', '/\uff0e\uff0e/', 'the request target has a control character, a space or #'],
    ['absolute form', 'http://a/b', 'the request target is not a path'],
    ['nothing', '', 'the request target is not a path'],
  ])('is refused with %s', (_, target, reason) => {
    expect(readPath(target)).toEqual({ reason })
  })

  it('never leaves the folder that it starts in, however a URL parser reads it', () => {
    const part = fc.constantFrom(
      '.',
      '/',
      '\\',
      '%2e',
      '%2f',
      '%5c',
      '%252e',
      '%252f',
      '%25',
      '2e',
      '2f',
      'a',
      ';',
      '%00',
      '?',
      '..',
    )
    fc.assert(
      fc.property(fc.array(part, { maxLength: 12 }), parts => {
        const read = readPath(`/public/${parts.join('')}`)
        if ('reason' in read) return
        const decoded = read.path.replaceAll(/%(2e|2f)/gi, (_, hex) => (hex.toLowerCase() === '2e' ? '.' : '/'))
        const { pathname } = new URL(`http://h${decoded.replaceAll('?', '%3F')}`)
        expect(pathname.startsWith('/public/')).toBe(true)
      }),
      { numRuns: 3000 },
    )
  })
})
