// Rules of .dockerignore, as Docker reads them. SECURITY: what they name, such as .env, must not get into an image.
import { posix } from 'node:path'

export type IgnoreRules = {
  ignores(path: string): boolean
  /** True: a rule may take up a file of an ignored folder. */
  hasExceptions: boolean
}

/** The last rule that matches a path, or a folder above it, decides. */
export function ignoreRules(text: string): IgnoreRules {
  const rules = text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .filter(line => !line.startsWith('#'))
    .flatMap(ruleOf)
  return {
    ignores: path => rules.findLast(({ pattern }) => pattern.test(path))?.isException === false,
    hasExceptions: rules.some(({ isException }) => isException),
  }
}

function ruleOf(line: string): { pattern: RegExp; isException: boolean }[] {
  const trimmed = line.trim()
  const isException = trimmed.startsWith('!')
  const written = isException ? trimmed.slice(1).trim() : trimmed
  if (written === '') return []
  const path = posix.normalize(written).replace(/^\/+|\/+$/g, '')
  if (path === '' || path === '.') return []
  return [{ pattern: patternOf(path), isException }]
}

/** `*` and `?` match within one part of a path, `**` any number of parts. */
function patternOf(path: string): RegExp {
  const source = path.replace(TOKENS, (token, letter: string | undefined) => {
    if (token === '**/') return '(?:.*/)?'
    if (token === '**') return '.*'
    if (token === '*') return '[^/]*'
    if (token === '?') return '[^/]'
    if (token.startsWith('[')) return token
    return escaped(letter ?? token)
  })
  try {
    return new RegExp(`^${source}(?:/.*)?$`, 's')
  } catch (cause) {
    throw new Error(`.dockerignore has a pattern that is not valid: ${path}`, { cause })
  }
}

/** A wildcard, a class of characters, an escaped character, or a character that means something in an expression. */
const TOKENS = /\*\*\/|\*\*|\*|\?|\[[^\]]+\]|\\(.)|[.$^+(){}|[\]]/gs
const escaped = (letter: string) => letter.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')
