// ONBUILD instructions of a base image: how the engine reads them from the configuration, and which ones are refused.
import { invalid } from '../../manifest.ts'
import { refuseLater } from './copy.ts'
import { invalidInstruction, parseDockerfile } from './dockerfile.ts'

/**
 * SECURITY: the engine parses each ONBUILD of a base as a separate Dockerfile, after all checks of the build's own Dockerfile. An instruction of
 * more than one line could be joined to one that is not checked here.
 */
export function refuseOnbuild(image: string, instructions: readonly string[], fetches: boolean): void {
  const name = `ONBUILD of ${image}`
  for (const instruction of instructions) {
    if (/[\r\n]|\\\s*$/.test(instruction)) throw invalidInstruction(name, 1, 'has more than one line', 'start from another image')
    const [only, ...more] = parseDockerfile(name, instruction).instructions
    if (!only || more.length > 0) throw invalidInstruction(name, 1, 'is not one instruction', 'start from another image')
    refuseLater(name, { line: 1, word: 'ONBUILD', rest: `${only.word} ${only.rest}` }, fetches)
  }
}

/**
 * SECURITY: the engine's JSON parser ignores the case of field names and merges fields with the same name, but JSON.parse keeps only the last.
 * So field names are compared without case, and a configuration with duplicate fields is refused.
 */
export function onbuildIn(image: string, config: Buffer): string[] {
  const text = config.toString('utf8')
  const whole: unknown = JSON.parse(text)
  if (countWritten(text) !== countParsed(whole)) throw invalid(image, 'its configuration has a duplicate field')
  const lists = fields(whole, 'config').flatMap(settings => fields(settings, 'onbuild'))
  return lists.flatMap(list => {
    if (list === null) return []
    if (!Array.isArray(list) || !list.every(one => typeof one === 'string')) throw invalid(image, 'its ONBUILD is not a list')
    return list
  })
}

const fields = (value: unknown, name: string): unknown[] =>
  typeof value === 'object' && value !== null
    ? Object.entries(value).flatMap(([key, inner]) => (key.toLowerCase() === name ? [inner] : []))
    : []

/** Fields in the text: each has one colon, and no other colon stands outside a string. */
function countWritten(text: string): number {
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

/** Fields after parsing. Without recursion, because the nesting may be as deep as the text is long. */
function countParsed(whole: unknown): number {
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
