import { expect, test } from 'vitest'
import { ignoreRules } from './docker-ignore.ts'

const PATHS = ['.env', 'a.log', 'src/a.log', 'src/deep/a.log', 'src/b.ts', 'src', 'temp1', 'temp12', 'a+b', 'README.md']

test.each([
  ['', []],
  ['# .env\n\n  \n.\n/', []],
  ['.env', ['.env']],
  ['/src/', ['src/a.log', 'src/deep/a.log', 'src/b.ts', 'src']],
  ['*.log', ['a.log']],
  ['**/*.log', ['a.log', 'src/a.log', 'src/deep/a.log']],
  ['*/*.log', ['src/a.log']],
  ['src/**', ['src/a.log', 'src/deep/a.log', 'src/b.ts']],
  ['**/deep', ['src/deep/a.log']],
  ['temp?', ['temp1']],
  ['temp[0-9]', ['temp1']],
  ['a+b', ['a+b']],
  ['a\\+b', ['a+b']],
  ['src/../.env', ['.env']],
  ['src\r\n!src/a.log', ['src/deep/a.log', 'src/b.ts', 'src']],
  ['!.env\n.env', ['.env']],
  ['*\n! README.md', PATHS.filter(path => path !== 'README.md')],
])('%j ignores what docker ignores', (text, expected) => {
  const rules = ignoreRules(text)
  expect(PATHS.filter(path => rules.ignores(path))).toEqual(expected)
})

test('a pattern that is not valid is an error and does not let a file through', () => {
  expect(() => ignoreRules('a[z-a]')).toThrow(/not valid/)
})
