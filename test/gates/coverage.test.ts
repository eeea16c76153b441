import { existsSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { read } from './tree.ts'

// A row is | item | where | test |. The test cell names `file`: "title", or says which later work brings it.
type Row = { item: string; where: string; test: string; line: number }

const rows: Row[] = read('docs/coverage.md')
  .split('\n')
  .flatMap((text, i) => {
    const [, item = '', where = '', test = ''] = text.split(/(?<!\\)\|/).map(cell => cell.trim())
    return text.startsWith('|') && item !== 'item' && !/^-+$/.test(item) ? [{ item, where, test, line: i + 1 }] : []
  })

describe('docs/coverage.md', () => {
  it('has rows', () => {
    expect(rows.length).toBeGreaterThan(50)
  })

  it('names for every item a test, or the later work that brings it', () => {
    expect(rows.filter(row => testsIn(row).length === 0 && !row.test.startsWith('later: ')).map(place)).toEqual([])
  })

  it('names only tests that exist, by file and title', () => {
    const missing = rows.flatMap(row =>
      testsIn(row)
        .filter(t => !exists(t))
        .map(t => `${place(row)}: ${t.file}: "${t.title}"`),
    )
    expect(missing).toEqual([])
  })

  it('names only places that exist', () => {
    const paths = rows.flatMap(row =>
      [...row.where.matchAll(/`([\w.-]+(?:\/[\w.-]+)+\/?)`/g)].map(m => ({ row, path: m[1] ?? '' })),
    )
    expect(paths.filter(p => !existsSync(p.path)).map(p => `${place(p.row)}: ${p.path}`)).toEqual([])
  })
})

function testsIn({ test }: Row): { file: string; title: string }[] {
  return [...test.matchAll(/`([^`]+)`: "([^"]+)"/g)].map(m => ({ file: m[1] ?? '', title: m[2] ?? '' }))
}

/** Quotes in a title are escaped in the source; what the page shows is compared without them. */
function exists({ file, title }: { file: string; title: string }): boolean {
  const plain = (text: string) => text.replaceAll(/[\\'"`’]/g, '')
  return existsSync(file) && plain(read(file)).includes(plain(title))
}

const place = (row: Row) => `line ${row.line}, ${row.item}`
