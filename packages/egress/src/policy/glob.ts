// Patterns of hosts and paths: * matches any characters, . and / included, ? matches exactly one. Nothing else is special.

export const hasWildcard = (pattern: string): boolean => pattern.includes('*') || pattern.includes('?')

/**
 * SECURITY: only the last * is ever tried again, so the time is at most the product of both lengths. A matcher that goes back to every * needs
 * exponential time for a path that the sandbox chooses.
 */
export function matchesGlob(pattern: string, text: string): boolean {
  if (!canEnd(pattern, text)) return false
  let p = 0
  let t = 0
  /** Position after the last *, the characters that follow there up to the next wildcard, and where in the text they were last found. */
  let star = -1
  let literal = ''
  let found = 0
  while (t < text.length) {
    if (pattern[p] === '*') {
      star = ++p
      if (p === pattern.length) return true
      literal = literalAt(pattern, p)
      found = text.indexOf(literal, t)
    } else if (p < pattern.length && (pattern[p] === '?' || pattern[p] === text[t])) {
      p++
      t++
      continue
    } else if (star !== -1) {
      found = text.indexOf(literal, found + 1)
    } else return false
    if (found === -1) return false
    p = star + literal.length
    t = found + literal.length
  }
  while (pattern[p] === '*') p++
  return p === pattern.length
}

function literalAt(pattern: string, start: number): string {
  let end = start
  while (end < pattern.length && pattern[end] !== '*' && pattern[end] !== '?') end++
  return pattern.slice(start, end)
}

/** Whether the end of the text fits what follows the last *. Most rules for other paths are refused here, without a look at a long text. */
function canEnd(pattern: string, text: string): boolean {
  let p = pattern.length - 1
  let t = text.length - 1
  for (; p >= 0 && pattern[p] !== '*'; p--, t--) {
    if (t < 0 || (pattern[p] !== '?' && pattern[p] !== text[t])) return false
  }
  return p >= 0 || t < 0
}
