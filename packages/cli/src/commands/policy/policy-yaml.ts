// A policy as YAML, in the form that `policy set` reads.
import { type PolicyOptions, toSnake } from '@sandglass/sdk'
import { Document, isScalar, isSeq, visit } from 'yaml'
import { escapeUnsafe, printable } from '../../output/printable.ts'

/**
 * Leaves out what is empty. SECURITY: a suggested policy has paths that a sandbox chose; characters that could act on the terminal are
 * written as escapes in double quotes, which mean the same in YAML.
 */
export function policyYaml(policy: PolicyOptions): string {
  const document = new Document(withoutEmpty(toSnake(policy)), { aliasDuplicateObjects: false })
  visit(document, {
    Pair(_, { key, value }) {
      if (isScalar(key) && ON_ONE_LINE.includes(String(key.value)) && isSeq(value)) value.flow = true
    },
    Scalar(_, node) {
      if (typeof node.value === 'string' && printable(node.value) !== node.value) node.type = 'QUOTE_DOUBLE'
    },
  })
  return escapeUnsafe(document.toString({ lineWidth: 0, flowCollectionPadding: false }))
}

/** Lists of short words. */
const ON_ONE_LINE = ['include', 'methods', 'ports']

/** An object stays even if nothing is in it: `graphql: {}` allows no operation, and without it all are allowed. */
function withoutEmpty(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutEmpty)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, field]) => !isEmpty(field))
      .map(([name, field]) => [name, withoutEmpty(field)]),
  )
}

const isEmpty = (value: unknown) =>
  value === undefined || value === '' || value === false || (Array.isArray(value) && value.length === 0)
