import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { describe, expect, it } from 'vitest'
import { FILES, isGenerated, isTest, read } from './tree.ts'

const PAGE = 'docs/architecture.md'
const MOST = 15

// Files that a reader has to know: no tests, no fixtures, nothing generated.
const PRODUCT = FILES.filter(
  path =>
    /^(packages\/[^/]+\/src|runner|tools|bench)\/.+\.(ts|go)$/.test(path) &&
    !isTest(path) &&
    !isGenerated(path) &&
    !/_test\.go$|\/testdata\/|\/testing\//.test(path),
)
const byFolder = Map.groupBy(PRODUCT, path => dirname(path))

// Folders with more files than a reader can keep in mind, and why.
const LARGER: Record<string, string> = {
  'runner/internal/guest': 'one step of the start of a virtual machine per file, two of them per architecture',
  'runner/internal/launch/oci': 'one job or one step of a start per file',
}

describe(PAGE, () => {
  const text = read(PAGE)

  it('names only paths that exist', () => {
    const named = [...text.matchAll(/`([\w.@-]+(?:\/[\w.@-]+)*\/?)`/g)].map(m => m[1] ?? '').filter(isPath)
    expect(named.length).toBeGreaterThan(100)
    expect(named.filter(path => !existsSync(path))).toEqual([])
  })

  it('names every folder of the product and every folder at the top', () => {
    const tops = new Set(FILES.filter(path => path.includes('/') && !path.startsWith('.')).map(path => path.split('/')[0] ?? ''))
    const folders = [...byFolder.keys(), ...tops]
    expect(folders.filter(folder => !text.includes(`\`${folder}/\``))).toEqual([])
  })
})

it(`no folder has more than ${MOST} product files`, () => {
  const larger = [...byFolder].filter(([, files]) => files.length > MOST).map(([folder]) => folder)
  expect(larger.sort()).toEqual(Object.keys(LARGER).sort())
})

it('every Go package says what it is for', () => {
  const folders = [...byFolder.keys()].filter(folder => folder.startsWith('runner'))
  const silent = folders.filter(
    folder => !byFolder.get(folder)?.some(path => /^\/\/ (Package|The|Command) [\s\S]*?\npackage /m.test(read(path))),
  )
  expect(silent).toEqual([])
})

/** A word in backticks is a path when it has a folder in it, or is a file at the top. */
function isPath(word: string): boolean {
  return /^(packages|runner|docs|test|tools|bench|images|examples|packaging)\//.test(word) || /^[A-Z]+\.md$/.test(word)
}
