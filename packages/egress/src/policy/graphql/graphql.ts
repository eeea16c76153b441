// The GraphQL operations of a request: from a JSON body, a body that is a document, or the query of the URL.
import { type HeaderList, valuesOf } from '../../http/message.ts'
import { type GraphqlKind, readOperations } from './graphql-document.ts'
import { hasDuplicateKeys } from './json-keys.ts'

/** The kind of every operation that the server may run. */
export type GraphqlOperations = readonly GraphqlKind[]

export interface GraphqlRequest {
  readonly method: string
  readonly target: string
  readonly headers: HeaderList
  /** The whole body, with the framing removed; empty if there is none. */
  readonly body: Uint8Array
}

/**
 * With an operationName only the operation of that name counts, else all of them.
 *
 * SECURITY: anything that a server might read in another way is unreadable, and so is not allowed: a document in two places, duplicate keys,
 * unknown fields, persisted queries (only the server knows their text), encoded bodies, other content types.
 */
export function readGraphql(request: GraphqlRequest): GraphqlOperations | 'unreadable' {
  const parameters = urlParameters(request.target)
  if (parameters === null) return 'unreadable'
  if (request.method === 'GET' || request.method === 'HEAD')
    return request.body.length === 0 ? ofFields(parameters) : 'unreadable'
  if (request.method !== 'POST' || Object.keys(parameters).length > 0) return 'unreadable'
  const type = bodyType(request.headers)
  const text = type === null ? null : decodeText(request.body)
  if (text === null) return 'unreadable'
  if (type === 'application/graphql') return ofFields({ query: text })
  const json = parseJson(text)
  return Array.isArray(json) ? ofBatch(json) : ofFields(json)
}

const FIELDS = ['query', 'operationName', 'variables', 'extensions']

/** The fields of a GraphQL request in the URL; null if one is there twice or in a form that frameworks treat as a part of it. */
function urlParameters(target: string): Record<string, string> | null {
  const start = target.indexOf('?')
  const parameters: Record<string, string> = {}
  if (start === -1) return parameters
  for (const [name, value] of new URLSearchParams(target.slice(start + 1))) {
    const field = name.replace(/[[.].*/s, '')
    if (!FIELDS.includes(field)) continue
    if (field !== name || parameters[name] !== undefined) return null
    parameters[name] = value
  }
  return parameters
}

function bodyType(headers: HeaderList): 'application/json' | 'application/graphql' | null {
  const encodings = valuesOf(headers, 'content-encoding')
  const [type = '', ...others] = valuesOf(headers, 'content-type')
  if (others.length > 0 || encodings.some(encoding => encoding.toLowerCase() !== 'identity')) return null
  const match = /^(application\/json|application\/graphql)\s*(?:;\s*charset="?utf-8"?\s*)?$/i.exec(type.trim())
  return match === null ? null : match[1]?.toLowerCase() === 'application/json' ? 'application/json' : 'application/graphql'
}

function decodeText(body: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
  } catch {
    return null // not UTF-8
  }
}

function parseJson(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    return hasDuplicateKeys(text) ? null : value
  } catch {
    return null // not JSON
  }
}

function ofBatch(requests: readonly unknown[]): GraphqlOperations | 'unreadable' {
  const all = requests.map(ofFields)
  return all.includes('unreadable') ? 'unreadable' : all.flatMap(operations => (operations === 'unreadable' ? [] : operations))
}

function ofFields(fields: unknown): GraphqlOperations | 'unreadable' {
  if (typeof fields !== 'object' || fields === null || !Object.keys(fields).every(key => FIELDS.includes(key)))
    return 'unreadable'
  const {
    query,
    operationName = null,
    extensions = null,
  }: { query?: unknown; operationName?: unknown; extensions?: unknown } = fields
  if (typeof query !== 'string' || !isPlainExtensions(extensions)) return 'unreadable'
  const operations = readOperations(query)
  if (operations === null) return 'unreadable'
  if (operationName === null || operationName === '') return operations.map(({ kind }) => kind)
  const selected = operations.filter(({ name }) => name === operationName)
  return selected.length === 1 ? selected.map(({ kind }) => kind) : 'unreadable'
}

/** An object, or its JSON in a URL, that has nothing about a persisted query. */
function isPlainExtensions(extensions: unknown): boolean {
  if (extensions === null) return true
  const value = typeof extensions === 'string' ? parseJson(extensions) : extensions
  return typeof value === 'object' && value !== null && Object.keys(value).every(key => !/persisted/i.test(key))
}
