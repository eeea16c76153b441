import { describe, expect, it } from 'vitest'
import { FILES, isGenerated, read } from './tree.ts'

const SOURCE = FILES.filter(path => /\.(ts|mjs|go|sh)$/.test(path) && !isGenerated(path))
const WARN = 300
const FAIL = 500

const BANNED = /(^|[-_/])(utils?|helpers?|common|manager|misc|service)(\.|[-_/])/

describe('files', () => {
  it(`have at most ${FAIL} lines`, () => {
    const long = SOURCE.map(path => ({ path, lines: read(path).split('\n').length - 1 })).filter(f => f.lines > WARN)
    for (const { path, lines } of long) if (lines <= FAIL) console.warn(`${path} has ${lines} lines; ${WARN} is long`)
    expect(long.filter(f => f.lines > FAIL)).toEqual([])
  })

  it('have names that say what they are about', () => {
    expect(SOURCE.filter(path => BANNED.test(path))).toEqual([])
  })

  it('have names in kebab-case', () => {
    const typescript = SOURCE.filter(path => /\.(ts|mjs)$/.test(path))
    expect(typescript.filter(path => !/^[a-z0-9.-]+$/.test(path.split('/').at(-1) ?? ''))).toEqual([])
  })

  it('plans and summaries are not left in the root', () => {
    const allowed = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md']
    expect(FILES.filter(path => !path.includes('/') && path.endsWith('.md') && !allowed.includes(path))).toEqual([])
  })

  it('the runner depends on the standard library alone', () => {
    expect(read('runner/go.mod')).not.toMatch(/^\s*require\b/m)
    expect(FILES).not.toContain('runner/go.sum')
  })
})
