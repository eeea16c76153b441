// Texts for invalid values. They continue a sentence that begins with the name of the field.
import type { z } from 'zod'
import { nearest } from '../nearest.ts'

/** SECURITY: only numbers are quoted: a text may be a key. */
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
      return `unknown field ${issue.keys.join(', ')}${nearestField(issue)}`
    case 'invalid_key':
      return issue.issues[0]?.message
    case 'invalid_format':
      return issue.format === 'starts_with' ? `must begin with ${issue.prefix}` : undefined
    default:
      return undefined
  }
}

/** Longer names are not compared with the known ones. */
const MAX_NAME = 64

function nearestField({ keys, inst }: { keys: string[]; inst?: unknown }): string {
  const [key = '', ...more] = keys
  const { shape } = (inst as z.ZodObject | undefined)?._zod.def ?? {}
  const meant =
    more.length > 0 || key.length > MAX_NAME ? null : nearest(key, Object.keys(shape ?? {}), Math.ceil(key.length / 3))
  return meant === null ? '' : `; did you mean ${meant}?`
}

/** The unit in the name of a field, to follow a number. */
export function unitOf(field: string): string {
  const [, end = ''] = /_(mb|seconds|sec|ms|bytes)$/.exec(field) ?? []
  return FIELD_UNITS[end] ?? ''
}

const FIELD_UNITS: Readonly<Record<string, string>> = { mb: ' MiB', seconds: ' s', sec: ' s', ms: ' ms', bytes: ' bytes' }
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
