import { PATHS, ROUTES, type Route, type RouteName } from '@sandglass/contract'
import { z } from 'zod'
import { list, page, quote, table } from '../markdown.ts'

type JsonSchema = {
  type?: string | string[]
  description?: string
  enum?: unknown[]
  const?: unknown
  anyOf?: JsonSchema[]
  items?: JsonSchema
  properties?: Record<string, JsonSchema>
  required?: string[]
  minimum?: number
  maximum?: number
  additionalProperties?: unknown
}

export function apiPage(): string {
  const names = Object.keys(PATHS) as RouteName[]
  return page(
    'HTTP API',
    'JSON over HTTP, on a unix socket and on TCP. Every call but the public ones needs `Authorization: Bearer <key>`. `{id}` is a session’s id or its name. ' +
      'Requests are strict: an unknown field is an error. Replies may gain fields. Failed calls are described in [errors](errors.md), ranges in [limits](limits.md); ' +
      '[openapi.json](openapi.json) has the same as OpenAPI 3.1, and the daemon serves it at `/openapi.json`.',
    CURL,
    ...names.map(route),
  )
}

const CURL = `With the daemon that the command line starts for you:

\`\`\`
curl --unix-socket ~/.sandglass/data/sandglass.sock http://sandglass/v1/sessions \\
  -H "authorization: Bearer $(cat ~/.sandglass/data/api-key)" \\
  -H 'content-type: application/json' -d '{"name": "demo", "memory_mb": 512}'
\`\`\``

function route(name: RouteName): string {
  const r: Route = ROUTES[name]
  const parts = [
    `## ${r.method} ${r.path}`,
    `${r.summary}.${r.public ? ' Public.' : ''} Operation ${quote(name)}, ${KINDS[r.kind]}${r.status ? `, status ${r.status}` : ''}.`,
  ]
  if (r.creates) parts.push('Takes an `Idempotency-Key` header: the same key with the same request gives the same answer.')
  if (r.query) parts.push(fields('query', r.query, 'input'))
  if (r.headers) parts.push(fields('header', r.headers, 'input'))
  if (r.body) parts.push(fields('body', r.body, 'input'))
  if (r.rawBody) parts.push(`The body is raw ${quote(r.rawBody)}, of any size.`)
  if (r.kind === 'json' || r.kind === 'sse') parts.push(fields('reply', r.reply, 'output'))
  if (r.errors.length > 0) parts.push(`Errors: ${list(r.errors)}.`)
  return parts.filter(Boolean).join('\n\n')
}

const KINDS = { json: 'JSON', bytes: 'raw bytes', sse: 'server-sent events', websocket: 'a WebSocket' }

function fields(title: string, schema: z.ZodType, io: 'input' | 'output'): string {
  const json = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as JsonSchema
  const shapes = json.anyOf ?? [json]
  return shapes
    .flatMap(shape => {
      const entries = Object.entries(shape.properties ?? {})
      if (entries.length === 0) return []
      const isRequired = (field: string) => io === 'input' && (shape.required ?? []).includes(field)
      return [
        table(
          [title, 'type', 'what'],
          entries.map(([field, s]) => [quote(field) + (isRequired(field) ? ' (required)' : ''), typeOf(s), s.description ?? '']),
        ),
      ]
    })
    .join('\n\n')
}

function typeOf(s: JsonSchema): string {
  if (s.const !== undefined) return quote(JSON.stringify(s.const))
  if (s.enum) return s.enum.map(v => quote(String(v))).join(', ')
  if (s.anyOf) return s.anyOf.map(typeOf).join(' or ')
  if (s.type === 'array') return `list of ${typeOf(s.items ?? {})}`
  if (s.type === 'object') return s.properties ? `{${Object.keys(s.properties).join(', ')}}` : 'map'
  const isBounded =
    s.minimum !== undefined &&
    s.maximum !== undefined &&
    s.maximum < Number.MAX_SAFE_INTEGER &&
    s.minimum > Number.MIN_SAFE_INTEGER
  return [s.type ?? 'any'].flat().join(' or ') + (isBounded ? ` ${s.minimum}–${s.maximum}` : '')
}
