// Reads docs/coverage.md. A row is | item | where | test |; the test cell names `file`: "title", or says which later work brings the item.
import { existsSync } from 'node:fs'
import { read } from './tree.ts'

export type Row = { item: string; where: string; test: string; line: number }
export type NamedTest = { file: string; title: string }
/** One test that ran: the file it is in, or for Go the folder of its package, its full title, and whether it passed. */
export type Ran = { file: string; title: string; passed: boolean }

export function coverageRows(): Row[] {
  return read('docs/coverage.md')
    .split('\n')
    .flatMap((text, i) => {
      const [, item = '', where = '', test = ''] = text.split(/(?<!\\)\|/).map(cell => cell.trim())
      return text.startsWith('|') && item !== 'item' && !/^-+$/.test(item) ? [{ item, where, test, line: i + 1 }] : []
    })
}

export const place = (row: Row) => `line ${row.line}, ${row.item}`

export function testsIn({ test }: Row): NamedTest[] {
  return [...test.matchAll(/`([^`]+)`: "([^"]+)"/g)].map(m => ({ file: m[1] ?? '', title: m[2] ?? '' }))
}

export function existsInSource({ file, title }: NamedTest): boolean {
  return existsSync(file) && plain(read(file)).includes(plain(title))
}

/**
 * The tests that a row names and that did not pass in this run. A file of the conformance suite is no test file: its checks run under
 * their titles in the test file of each backend. A row about one backend needs that backend; for another row, one is enough.
 */
export function notPassed(rows: readonly Row[], ran: readonly Ran[]): string[] {
  const passed = ran.filter(test => test.passed).map(test => ({ ...test, title: plain(test.title) }))
  return rows.flatMap(row =>
    testsIn(row)
      .filter(named => !passed.some(test => isIn(row, named.file, test.file) && titlePattern(named.title).test(test.title)))
      .map(({ file, title }) => `${place(row)}: ${file}: "${title}"`),
  )
}

function isIn(row: Row, named: string, ran: string): boolean {
  if (named.endsWith('_test.go')) return ran === named.slice(0, named.lastIndexOf('/'))
  if (named.endsWith('.test.ts')) return named === ran
  const [, backend] = /`packages\/daemon\/src\/backends\/(oci|docker|microvm)\//.exec(row.where) ?? []
  return backend === undefined || ran.includes(`/backends/${backend}/`)
}

/** `%s` and `$name` stand for the values of a test that runs once for each row of a table. */
function titlePattern(title: string): RegExp {
  const escaped = plain(title).replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
  return new RegExp(escaped.replaceAll(/%[sdifjoO]|\\\$[a-zA-Z.]+(?:\\\{[^}]*\\\})?|\\\$\\\{[^}]*\\\}/g, '.*'))
}

/** Quotes in a title are escaped in the source; titles are compared without them. */
const plain = (text: string) => text.replaceAll(/[\\'"`’]/g, '')
