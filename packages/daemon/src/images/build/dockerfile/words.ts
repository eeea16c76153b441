// Words of an instruction as Docker reads them: quotes group, the escape character takes the next character as it is, and variables are expanded
// outside of single quotes.
import { expand, type Values } from './expand.ts'

const VARIABLE = /^\$(?:\w+|\{\w+(?::?[-+][^}]*)?\})/

/** Splits at spaces. */
export function wordsOf(text: string, values: Values, escapeCharacter: string): string[] {
  const words: string[] = []
  let rest = text.trimStart()
  while (rest !== '') {
    const { word, length } = readWord(rest, values, escapeCharacter)
    words.push(word)
    rest = rest.slice(length).trimStart()
  }
  return words
}

/** The whole text as one word. */
export function oneWord(text: string, values: Values, escapeCharacter: string): string {
  let [word, rest] = ['', text]
  for (;;) {
    const read = readWord(rest, values, escapeCharacter)
    word += read.word
    const space = /^\s*/.exec(rest.slice(read.length))?.[0] ?? ''
    rest = rest.slice(read.length + space.length)
    if (rest === '') return word
    word += space
  }
}

function readWord(text: string, values: Values, escapeCharacter: string): { word: string; length: number } {
  let word = ''
  let quote: string | null = null
  let at = 0
  while (at < text.length) {
    const letter = text[at] ?? ''
    if (quote === null && /\s/.test(letter)) break
    if (letter === quote) quote = null
    else if (quote === null && (letter === '"' || letter === "'")) quote = letter
    else if (letter === escapeCharacter && quote !== "'" && isEscaped(text[at + 1], quote, escapeCharacter)) {
      at++
      word += text[at] ?? ''
    } else if (letter === '$' && quote !== "'" && VARIABLE.test(text.slice(at))) {
      const [variable = ''] = VARIABLE.exec(text.slice(at)) ?? []
      word += expand(variable, values)
      at += variable.length - 1
    } else word += letter
    at++
  }
  return { word, length: at }
}

/** In double quotes only a quote, a dollar and the escape character itself are escaped. */
const isEscaped = (next: string | undefined, quote: string | null, escapeCharacter: string): boolean =>
  next !== undefined && (quote === null || next === '"' || next === '$' || next === escapeCharacter)

/** NAME=value pairs, or the older form `NAME the rest`. Null for text that is neither. */
export function pairsOf(text: string, values: Values, escapeCharacter: string): [string, string][] | null {
  const first = /^\s*("[^"]*"|'[^']*'|[^\s=]+)/.exec(text)?.[0] ?? ''
  if (first !== '' && text[first.length] !== '=') {
    const value = text.slice(first.length).trim()
    return value === '' ? null : [[oneWord(first.trim(), values, escapeCharacter), oneWord(value, values, escapeCharacter)]]
  }
  const pairs = wordsOf(text, values, escapeCharacter).map((word): [string, string] => {
    const at = word.indexOf('=')
    return [word.slice(0, Math.max(at, 0)), word.slice(at + 1)]
  })
  return pairs.length === 0 || pairs.some(([name]) => name === '') ? null : pairs
}

/** The list of a JSON form; null for any other text. */
export function jsonForm(text: string): string[] | null {
  if (!text.startsWith('[')) return null
  try {
    const list: unknown = JSON.parse(text)
    return Array.isArray(list) && list.every(item => typeof item === 'string') ? list : null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
