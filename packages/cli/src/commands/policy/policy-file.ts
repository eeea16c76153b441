// Reads a policy from YAML or JSON, and says on which line a mistake is.
import { nearest, Policy, UrlRule } from '@sandglass/contract'
import { type PolicyOptions, toCamel } from '@sandglass/sdk'
import { type Document, isAlias, isMap, isNode, isSeq, LineCounter, parseDocument } from 'yaml'
import { UsageError } from '../../parser/parse.ts'
import { yamlMistake } from './yaml-mistake.ts'

export type PolicyFile = {
  /** The file as messages name it. */
  source: string
  policy: PolicyOptions
  /** `FILE:LINE` of the value at this path, or of the nearest value around it. */
  at(path: Path): string
}

type Path = readonly PropertyKey[]

/** The daemon checks the policy again. It is checked here because only this side knows the lines. */
export function parsePolicy(text: string, source: string): PolicyFile {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const lineOf = (offset: number) => `${source}:${lines.linePos(offset).line}`
  const at = (path: Path) => lineOf(offsetOf(document, path))
  if (document.contents === null && document.errors.length === 0)
    throw invalid(`${source} is empty; write {} for a policy that allows nothing`)
  const mistake = yamlMistake(document, text)
  if (mistake !== undefined) throw invalid(`${lineOf(mistake.offset)}: ${mistake.issue}`)
  const value: unknown = document.toJS()
  if (!isMap(document.contents)) throw invalid(`${at([])}: must have keys, such as domains: [example.com]`)
  const checked = Policy.safeParse(value)
  if (!checked.success) throw invalid(...issueTexts(checked.error.issues, path => offsetOf(document, path), lineOf))
  return { source, policy: toCamel(value) as PolicyOptions, at }
}

const invalid = (issue = '', ...more: string[]) => new UsageError(issue, '`sandglass help policy set` shows an example', more)

const MAX_ISSUES = 10

type Issue = { code: string; path: Path; message: string; keys?: readonly string[] }

/** One text for each mistake, in the order of the file. */
function issueTexts(issues: readonly Issue[], offsetAt: (path: Path) => number, lineOf: (offset: number) => string): string[] {
  const found = issues
    .flatMap(({ path, message, keys }) =>
      keys === undefined
        ? [
            {
              offset: offsetAt(path),
              text: `${pathText(path)}${/^(must|is) /.test(message) ? '' : ':'} ${message}${spaceNote(message)}`,
            },
          ]
        : keys
            .map(key => [...path, key])
            .map(path => ({ offset: offsetAt(path), text: `unknown key ${pathText(path)}${meant(path)}` })),
    )
    .sort((a, b) => a.offset - b.offset)
    .map(({ offset, text }) => `${lineOf(offset)}: ${text}`)
  const more = found.length - MAX_ISSUES
  return more > 0 ? [...found.slice(0, MAX_ISSUES), `and ${more} more`] : found
}

/** YAML joins a line that is indented further than a list to the entry before it. */
const spaceNote = (message: string) => (message.endsWith(' has a space in it') ? '; is the next line indented too far?' : '')

/** The keys of each object in a policy, by the last name in its path. */
const KNOWN: Readonly<Record<string, readonly string[]>> = {
  '': Object.keys(Policy.shape),
  url_prefixes: Object.keys(UrlRule.shape),
  graphql: Object.keys(UrlRule.shape.graphql.unwrap().shape),
}

function meant(path: Path): string {
  const key = String(path.at(-1))
  const holder = path.slice(0, -1).findLast(part => typeof part === 'string') ?? ''
  const known = nearest(key.toLowerCase(), KNOWN[holder] ?? [], Math.ceil(key.length / 3))
  return known === null ? '' : `; did you mean ${known}?`
}

/** url_prefixes[2].host */
const pathText = (path: Path) =>
  path.map((part, i) => (typeof part === 'number' ? `[${part}]` : `${i === 0 ? '' : '.'}${String(part)}`)).join('')

/** Where the value at this path begins; for a field, where its key begins. */
function offsetOf(document: Document, path: Path): number {
  let node: unknown = document.contents
  let offset = isNode(node) ? (node.range?.[0] ?? 0) : 0
  for (const part of path) {
    if (isAlias(node)) node = node.resolve(document)
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => String(key) === String(part))
      if (pair === undefined) break
      if (isNode(pair.key)) offset = pair.key.range?.[0] ?? offset
      node = pair.value
    } else if (isSeq(node) && typeof part === 'number') {
      node = node.items[part]
      if (isNode(node)) offset = node.range?.[0] ?? offset
    } else break
  }
  return offset
}
