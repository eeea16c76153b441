// The files that the gates read: everything tracked, and everything that would be if it were added.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'

// SECURITY: safe.directory is given per call, because the clone may belong to another user than the one who runs the tests.
const listed = execFileSync('git', ['-c', 'safe.directory=*', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
  encoding: 'utf8',
  maxBuffer: 64 * 1024 * 1024,
})

export const FILES = listed.split('\0').filter(path => path && existsSync(path))
export const TYPESCRIPT = FILES.filter(path => /\.(ts|mjs)$/.test(path))
/** Tests, and what only they share: `x.fixture.ts`. */
export const isTest = (path: string) => /\.(test|fixture)\.ts$/.test(path) || path.startsWith('test/')
export const isGenerated = (path: string) =>
  path.startsWith('docs/reference/') || path.includes('/generated/') || path === 'package-lock.json'

export const read = (path: string) => readFileSync(path, 'utf8')

/** The source with comments blanked out, line numbers kept. Strings are left alone. */
export function code(path: string): string {
  const blank = (text: string) => text.replace(/[^\n]/g, ' ')
  return read(path).replace(/'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, part =>
    part.startsWith('/') ? blank(part) : part,
  )
}

/** `path:line: text` for every line that matches. */
export function linesMatching(path: string, pattern: RegExp, text = read(path)): string[] {
  return text.split('\n').flatMap((line, i) => (pattern.test(line) ? [`${path}:${i + 1}: ${line.trim()}`] : []))
}
