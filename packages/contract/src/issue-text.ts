// What a value that does not fit is told, in the words of the rest of Sandglass: the field's name stands in front.
import type { z } from 'zod'

/** SECURITY: of the value only a number is ever shown: a text may be a key. */
export function issueText(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is missing' : `must be ${TYPES[issue.expected] ?? issue.expected}`
    case 'too_small':
      if (issue.origin === 'number') return `must be at least ${issue.minimum}, not ${issue.input}`
      return issue.minimum === 1 ? 'must not be empty' : `must have at least ${issue.minimum} ${UNITS[issue.origin] ?? 'items'}`
    case 'too_big':
      if (issue.origin === 'number') return `must be at most ${issue.maximum}, not ${issue.input}`
      return `must have at most ${issue.maximum} ${UNITS[issue.origin] ?? 'items'}`
    case 'invalid_value':
      return `must be ${issue.values.length > 1 ? 'one of ' : ''}${issue.values.map(value => JSON.stringify(value)).join(', ')}`
    case 'unrecognized_keys':
      return `unknown field ${issue.keys.join(', ')}`
    case 'invalid_key':
      return issue.issues[0]?.message
    case 'invalid_format':
      return issue.format === 'starts_with' ? `must begin with ${issue.prefix}` : undefined
    default:
      return undefined
  }
}

const UNITS: Readonly<Record<string, string>> = { string: 'characters' }
const TYPES: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  record: 'an object',
}
