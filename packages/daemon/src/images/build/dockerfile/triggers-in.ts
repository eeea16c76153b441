// The ONBUILD instructions of an image, as the engine finds them in its configuration.
import { invalid } from '../../manifest.ts'

/**
 * SECURITY: the engine's reader takes a field in whatever case it is written. Of two with one name it joins what is in them, where JSON.parse
 * has the last alone.
 */
export function triggersIn(image: string, config: Buffer): string[] {
  const text = config.toString('utf8')
  const whole: unknown = JSON.parse(text)
  if (fieldsWritten(text) !== fieldsIn(whole)) throw invalid(image, 'its configuration has a field twice')
  const lists = fields(whole, 'config').flatMap(settings => fields(settings, 'onbuild'))
  return lists.flatMap(list => {
    if (list === null) return []
    if (!Array.isArray(list) || !list.every(one => typeof one === 'string')) throw invalid(image, 'its ONBUILD is no list')
    return list
  })
}

const fields = (value: unknown, name: string): unknown[] =>
  typeof value === 'object' && value !== null
    ? Object.entries(value).flatMap(([key, inner]) => (key.toLowerCase() === name ? [inner] : []))
    : []

/** Each has a colon, and outside of strings nothing else has. */
function fieldsWritten(text: string): number {
  let count = 0
  let inString = false
  for (let at = 0; at < text.length; at++) {
    const letter = text[at]
    if (letter === '"') inString = !inString
    else if (inString && letter === '\\') at++
    else if (!inString && letter === ':') count++
  }
  return count
}

/** Without recursion: it may be nested as deeply as it is long. */
function fieldsIn(whole: unknown): number {
  let count = 0
  const rest = [whole]
  while (rest.length > 0) {
    const value = rest.pop()
    if (typeof value !== 'object' || value === null) continue
    const inner = Object.values(value)
    if (!Array.isArray(value)) count += inner.length
    for (const each of inner) rest.push(each)
  }
  return count
}
