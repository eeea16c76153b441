import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { BOUNDARIES, type Boundary, ENTRY_POINTS } from './boundaries.ts'
import { type Import, importsOf } from './imports.ts'
import { isTest, TYPESCRIPT } from './tree.ts'

const imports = TYPESCRIPT.filter(path => !isTest(path)).flatMap(importsOf)
const rowFor = (path: string) => BOUNDARIES.find(row => path.startsWith(row.files))

describe('imports', () => {
  it('point only where the table lets them', () => {
    const breaches = imports.flatMap(i => {
      const row = rowFor(i.from)
      return row && !allows(row, i) ? [`${i.from} imports ${i.specifier}: ${row.because}`] : []
    })
    expect(breaches).toEqual([])
  })

  it('every source file has a row in the table', () => {
    const orphans = [...new Set(imports.map(i => i.from))].filter(path => !rowFor(path) && path.includes('/'))
    expect(orphans).toEqual([])
  })

  it('every row of the table matches a file', () => {
    expect(BOUNDARIES.map(row => row.files).filter(files => !TYPESCRIPT.some(path => rowFor(path)?.files === files))).toEqual([])
  })

  it('every relative import leads to a file in the same package', () => {
    const breaches = TYPESCRIPT.flatMap(importsOf).filter(
      i => i.specifier.startsWith('.') && (!existsSync(i.target) || packageOf(i.target) !== packageOf(i.from)),
    )
    expect(
      breaches.filter(i => !ENTRY_POINTS.some(e => i.from.startsWith(e))).map(i => `${i.from} imports ${i.specifier}`),
    ).toEqual([])
  })

  it('nothing imports a tool, a test, a benchmark or an example', () => {
    const breaches = imports.filter(i => ENTRY_POINTS.some(e => i.target.startsWith(e) && !i.from.startsWith(e)))
    expect(breaches.filter(i => !i.from.startsWith('tools/')).map(i => `${i.from} imports ${i.specifier}`)).toEqual([])
  })

  it('what the zod-free tables pull in is free of zod', () => {
    const seen = new Set(['packages/contract/src/tables.ts'])
    const packages = new Set<string>()
    for (const path of seen) {
      for (const i of importsOf(path).filter(i => !i.isTypeOnly)) {
        if (i.specifier.startsWith('.')) seen.add(i.target)
        else packages.add(`${path} imports ${i.specifier}`)
      }
    }
    expect(seen.size).toBeGreaterThan(1)
    expect([...packages]).toEqual([])
  })

  it('the reader of imports finds each form', () => {
    const found = importsOf('test/gates/testdata/imports.ts')
    expect(found.map(i => [i.specifier, i.isTypeOnly])).toEqual([
      ['node:fs', false],
      ['node:os', true],
      ['node:path', false],
      ['./side-effect.ts', false],
      ['./re-export.ts', false],
      ['node:net', true],
      ['node:http', false],
    ])
  })
})

function allows(row: Boundary, i: Import): boolean {
  const target = i.target
  const isUnder = (prefix: string) =>
    target.startsWith(prefix) && (prefix.endsWith('/') || prefix.endsWith(':') || isWhole(target, prefix))
  if (row.may.some(isUnder) || (row.files.endsWith('/') && target.startsWith(row.files))) return true
  return i.isTypeOnly && (row.typesOnly ?? []).some(isUnder)
}

/** `ws` allows `ws` and `ws/x`, not `wsx`. */
const isWhole = (target: string, prefix: string) => target.length === prefix.length || target[prefix.length] === '/'

const packageOf = (path: string) => join(...path.split('/').slice(0, path.startsWith('packages/') ? 2 : 1))
