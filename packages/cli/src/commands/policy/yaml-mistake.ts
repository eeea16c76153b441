// Says what is wrong with a text that is not YAML, in words for its author.
import { type Document, isCollection, visit } from 'yaml'

type YamlMistake = { offset: number; issue: string }

/** The first mistake of the text that the document was read from; undefined if there is none. */
export function yamlMistake(document: Document.Parsed, text: string): YamlMistake | undefined {
  const [error] = document.errors
  if (error === undefined) return unknownAlias(document)
  const [offset] = error.pos
  if (error.code === 'DUPLICATE_KEY') return { offset, issue: `${keyAt(text, offset)} is there twice` }
  const open = error.code === 'BAD_INDENT' || error.code === 'MISSING_CHAR' ? unclosed(document, text) : undefined
  return unknownAlias(document) ?? open ?? { offset, issue: `is neither YAML nor JSON: ${error.message}` }
}

/** In YAML, a value that begins with * refers to a name elsewhere in the file. */
function unknownAlias(document: Document.Parsed): YamlMistake | undefined {
  let found: YamlMistake | undefined
  visit(document, {
    Alias(_, node) {
      if (node.resolve(document) !== undefined) return undefined
      found = {
        offset: node.range?.[0] ?? 0,
        issue: `write "*${node.source}" with quotes: YAML reserves * at the beginning`,
      }
      return visit.BREAK
    },
  })
  return found
}

/** The last list or map in brackets that is not closed. */
function unclosed(document: Document.Parsed, text: string): YamlMistake | undefined {
  let found: YamlMistake | undefined
  visit(document, {
    Collection(_, node) {
      const [start, end] = node.range ?? [0, 0]
      const open = text[start]
      if (!isCollection(node) || (open !== '[' && open !== '{')) return
      const [what, close] = open === '[' ? ['list', ']'] : ['map', '}']
      if (text[end - 1] !== close) found = { offset: start, issue: `the ${what} that begins with ${open} has no ${close}` }
    },
  })
  return found
}

const keyAt = (text: string, offset: number) => /^["']?([\w-]{1,64})/.exec(text.slice(offset, offset + 70))?.[1] ?? 'a key'
