// Wildcards in the sources of COPY: * and ? match no slash, [a-z] and [!a-z] match one character.
// SECURITY: matched step by step and not with a regular expression, whose time could grow without bound with the stars of a hostile pattern.

/** `pattern` is a path in parts. */
export function matchesPath(name: string, pattern: readonly string[]): boolean {
  const parts = name.split('/')
  return parts.length === pattern.length && parts.every((part, i) => matchesPart(part, pattern[i] ?? ''))
}

/** On a mismatch, the last * takes one more character. Its time is at most the product of both lengths. */
function matchesPart(text: string, pattern: string): boolean {
  let [at, index] = [0, 0]
  let star: { at: number; index: number } | null = null
  while (at < text.length) {
    const token = tokenAt(pattern, index)
    if (token?.text === '*') {
      star = { at, index: index + 1 }
      index++
    } else if (token && matchesOne(text[at] ?? '', token.text)) {
      at++
      index += token.text.length
    } else if (star) {
      star.at++
      at = star.at
      index = star.index
    } else return false
  }
  while (pattern[index] === '*') index++
  return index === pattern.length
}

function tokenAt(pattern: string, at: number): { text: string } | null {
  if (at >= pattern.length) return null
  const end = pattern[at] === '[' ? pattern.indexOf(']', at + 2) : -1
  return { text: end < 0 ? (pattern[at] ?? '') : pattern.slice(at, end + 1) }
}

function matchesOne(letter: string, token: string): boolean {
  if (token === '?') return true
  if (token.length === 1) return token === letter
  const isNegated = token[1] === '!' || token[1] === '^'
  const set = token.slice(isNegated ? 2 : 1, -1)
  let isIn = false
  for (let at = 0; at < set.length; at++) {
    if (set[at + 1] === '-' && at + 2 < set.length) {
      isIn ||= letter >= (set[at] ?? '') && letter <= (set[at + 2] ?? '')
      at += 2
    } else isIn ||= set[at] === letter
  }
  return isIn !== isNegated
}
