// A GraphQL document as the list of its operations. Everything inside an operation is skipped.

export type GraphqlKind = 'query' | 'mutation' | 'subscription'

export interface Operation {
  readonly kind: GraphqlKind
  /** Null for an anonymous one. */
  readonly name: string | null
}

/**
 * The operations in the order of the document; null for text that is no executable document.
 *
 * SECURITY: a server must not find an operation that is not found here. So only the grammar of executable documents is accepted, and characters
 * that GraphQL versions treat differently (line separators, byte order marks, control characters) are refused.
 */
export function readOperations(document: string): Operation[] | null {
  const tokens = tokenize(document)
  if (tokens === null) return null
  const operations: Operation[] = []
  let at = 0
  while (at < tokens.length) {
    const definition = readDefinition(tokens, at)
    if (definition === null) return null
    if (definition.operation !== null) operations.push(definition.operation)
    at = definition.end
  }
  return operations
}

const KINDS: ReadonlyMap<string, GraphqlKind> = new Map([
  ['query', 'query'],
  ['mutation', 'mutation'],
  ['subscription', 'subscription'],
])
const CLOSING: Readonly<Record<string, string>> = { '{': '}', '(': ')', '[': ']' }
const NAME = /^[_A-Za-z]/

/** `{ … }`, `kind Name (…) @directive(…) { … }` or `fragment Name on Type @directive(…) { … }`. */
function readDefinition(tokens: readonly string[], start: number): { operation: Operation | null; end: number } | null {
  const first = tokens[start] ?? ''
  if (first === '{') return withEnd({ kind: 'query', name: null }, skipBalanced(tokens, start))
  const kind = KINDS.get(first)
  if (kind === undefined) {
    const isFragment =
      first === 'fragment' && isName(tokens[start + 1]) && tokens[start + 1] !== 'on' && tokens[start + 2] === 'on'
    return isFragment && isName(tokens[start + 3]) ? withEnd(null, skipToBody(tokens, start + 4)) : null
  }
  const next = tokens[start + 1]
  const name = next !== undefined && isName(next) ? next : null
  const header = start + (name === null ? 1 : 2)
  const directives = tokens[header] === '(' ? skipBalanced(tokens, header) : header
  return directives === null ? null : withEnd({ kind, name }, skipToBody(tokens, directives))
}

const withEnd = (operation: Operation | null, end: number | null) => (end === null ? null : { operation, end })
const isName = (token: string | undefined): boolean => token !== undefined && NAME.test(token)

/** Past the directives and the selection set. */
function skipToBody(tokens: readonly string[], start: number): number | null {
  let at = start
  while (tokens[at] === '@') {
    if (!isName(tokens[at + 1])) return null
    at += 2
    if (tokens[at] !== '(') continue
    const end = skipBalanced(tokens, at)
    if (end === null) return null
    at = end
  }
  return tokens[at] === '{' ? skipBalanced(tokens, at) : null
}

/** Past the bracket that closes the one at `start`. */
function skipBalanced(tokens: readonly string[], start: number): number | null {
  const expected: string[] = []
  for (let at = start; at < tokens.length; at++) {
    const token = tokens[at] ?? ''
    const closing = CLOSING[token]
    if (closing !== undefined) expected.push(closing)
    else if (token === '}' || token === ')' || token === ']') {
      if (expected.pop() !== token) return null
      if (expected.length === 0) return at + 1
    }
  }
  return null
}

const IGNORED = /[\t\n\r ,]+|#[^\n\r]*/y
const TOKEN = /\.\.\.|[!$&():=@[\]{|}]|[_A-Za-z][_0-9A-Za-z]*|-?[0-9][0-9A-Za-z.+-]*/y

/** Names, punctuators and numbers as they are; a string is the token `"`. */
function tokenize(document: string): string[] | null {
  if (hasForbiddenCharacter(document)) return null
  const tokens: string[] = []
  let at = 0
  while (at < document.length) {
    const ignored = matchAt(IGNORED, document, at)
    if (ignored !== null) at += ignored.length
    else if (document[at] === '"') {
      const end = document.startsWith('"""', at) ? endOfBlock(document, at + 3) : endOfString(document, at + 1)
      if (end === null) return null
      tokens.push('"')
      at = end
    } else {
      const token = matchAt(TOKEN, document, at)
      if (token === null) return null
      tokens.push(token)
      at += token.length
    }
  }
  return tokens
}

function matchAt(pattern: RegExp, text: string, at: number): string | null {
  pattern.lastIndex = at
  return pattern.exec(text)?.[0] ?? null
}

/** Control characters other than tab and line ends, and the characters that some version of GraphQL takes for a line end or ignores. */
function hasForbiddenCharacter(document: string): boolean {
  for (let i = 0; i < document.length; i++) {
    const code = document.charCodeAt(i)
    if (
      code < 0x20
        ? code !== 0x09 && code !== 0x0a && code !== 0x0d
        : (code >= 0x7f && code <= 0x9f) || code === 0x2028 || code === 0x2029 || code === 0xfeff
    )
      return true
  }
  return false
}

function endOfString(document: string, start: number): number | null {
  for (let at = start; at < document.length; at++) {
    const character = document[at] ?? ''
    if (character === '"') return at + 1
    if (character === '\n' || character === '\r') return null
    if (character === '\\' && !'"\\/bfnrtu'.includes(document[++at] ?? '?')) return null
  }
  return null
}

function endOfBlock(document: string, start: number): number | null {
  for (let at = document.indexOf('"""', start); at !== -1; at = document.indexOf('"""', at + 3)) {
    if (document[at - 1] !== '\\') return at + 3
  }
  return null
}
