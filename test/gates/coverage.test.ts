import { existsSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { coverageRows, existsInSource, notPassed, place, testsIn } from './coverage-rows.ts'

const rows = coverageRows()

// That the named tests passed is checked at the end of `npm test`, in tools/test/coverage.ts.
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
        .filter(t => !existsInSource(t))
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

  it('counts a row as shown only by a test of that file and title that passed', () => {
    const row = (test: string, where = '') => ({ item: 'item', where, test, line: 1 })
    const ran = (file: string, title: string, passed = true) => [{ file, title, passed }]
    const missing = (test: string, tests: ReturnType<typeof ran>) => notPassed([row(test)], tests).length
    expect(missing('`a.test.ts`: "ends"', ran('a.test.ts', 'a session ends'))).toBe(0)
    expect(missing('`a.test.ts`: "ends"', ran('a.test.ts', 'a session ends', false))).toBe(1)
    expect(missing('`a.test.ts`: "ends"', ran('b.test.ts', 'a session ends'))).toBe(1)
    expect(missing('`a.test.ts`: "starts %s on $backend"', ran('a.test.ts', 'starts python on oci'))).toBe(0)
    expect(missing('`conformance/limits.ts`: "holds"', ran('oci.test.ts', 'oci > holds'))).toBe(0)
    const oci = ran('packages/daemon/src/backends/oci/oci.test.ts', 'holds')
    expect(notPassed([row('`conformance/limits.ts`: "holds"', '`packages/daemon/src/backends/microvm/`')], oci)).toHaveLength(1)
    expect(notPassed([row('`conformance/limits.ts`: "holds"', '`packages/daemon/src/backends/oci/`')], oci)).toEqual([])
    expect(missing('`a.test.ts`: "mode %o"', ran('a.test.ts', 'mode 420'))).toBe(0)
    expect(missing('`runner/internal/shell/exec_test.go`: "TestIt"', ran('runner/internal/shell', 'TestIt'))).toBe(0)
    expect(missing('`runner/internal/shell/exec_test.go`: "TestIt"', ran('runner/internal/files', 'TestIt'))).toBe(1)
  })
})
