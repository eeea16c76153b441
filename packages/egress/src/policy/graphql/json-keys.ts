// Duplicate keys in JSON.

/**
 * True if an object in this valid JSON text has a key twice.
 *
 * SECURITY: some programs use the first of two equal keys, others the last, so what was checked here may not be what the server reads.
 */
export function hasDuplicateKeys(json: string): boolean {
  const open: (Set<string> | null)[] = []
  let at = 0
  while (at < json.length) {
    const character = json[at]
    if (character === '"') {
      const end = endOfString(json, at)
      const keys = open.at(-1)
      if (keys instanceof Set && isFollowedByColon(json, end)) {
        const key: string = JSON.parse(json.slice(at, end))
        if (keys.has(key)) return true
        keys.add(key)
      }
      at = end
      continue
    }
    if (character === '{') open.push(new Set())
    else if (character === '[') open.push(null)
    else if (character === '}' || character === ']') open.pop()
    at++
  }
  return false
}

function endOfString(json: string, start: number): number {
  let at = start + 1
  while (at < json.length && json[at] !== '"') at += json[at] === '\\' ? 2 : 1
  return at + 1
}

function isFollowedByColon(json: string, start: number): boolean {
  let at = start
  while (' \t\n\r'.includes(json[at] ?? ':')) at++
  return json[at] === ':'
}
