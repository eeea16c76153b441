// Removes keys from a YAML text and keeps every other line. Serialising the document again would move comments.
import { isDeepStrictEqual } from 'node:util'
import { isMap, isNode, isPair, type Node, type Pair, parse, parseDocument } from 'yaml'

/** Removes top-level keys with everything below them. Comments before and after them are kept. */
export function withoutKeys(text: string, keys: readonly string[]): string {
  const document = parseDocument(text)
  const expected = Object.fromEntries(Object.entries((document.toJS() ?? {}) as object).filter(([key]) => !keys.includes(key)))
  const cut = cutLines(text, document.contents, keys)
  if (isDeepStrictEqual(parse(cut) ?? {}, expected)) return cut
  // A flow mapping, or another form that cannot be cut by lines.
  for (const key of keys) document.delete(key)
  return document.toString()
}

function cutLines(text: string, contents: unknown, keys: readonly string[]): string {
  if (!isMap(contents) || contents.flow) return text
  let result = text
  for (const pair of contents.items.toReversed()) {
    const [start, end] = [lineOf(text, pair), afterLineOf(text, pair)]
    if (isNode(pair.key) && keys.includes(String(pair.key)) && start !== undefined && end !== undefined)
      result = result.slice(0, start) + result.slice(end).replace(/^(?:[ \t]+#.*\n?)+/, atMargin)
  }
  return result
}

/** Removes the indentation of comments below a removed key. */
const atMargin = (lines: string) => lines.replaceAll(/^[ \t]+/gm, '')

function lineOf(text: string, { key }: Pair): number | undefined {
  const start = isNode(key) ? key.range?.[0] : undefined
  return start === undefined ? undefined : text.lastIndexOf('\n', start - 1) + 1
}

function afterLineOf(text: string, pair: Pair): number | undefined {
  const end = lastNode(pair)?.range?.[1]
  if (end === undefined || text[end - 1] === '\n') return end
  const newline = text.indexOf('\n', end)
  return newline < 0 ? text.length : newline + 1
}

function lastNode({ key, value }: Pair): Node | undefined {
  const last = isMap(value) ? value.items.at(-1) : undefined
  if (isPair(last)) return lastNode(last)
  return isNode(value) ? value : isNode(key) ? key : undefined
}
