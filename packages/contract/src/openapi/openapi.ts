// OpenAPI 3.1, generated from ROUTES on request.
import type { z } from 'zod'
import { ERRORS } from '../errors.ts'
import { ROUTES, type Route } from '../routes.ts'
import { PATHS, type RouteName } from '../tables/paths.ts'
import { Components, NAMED_SCHEMAS } from './components.ts'
import { EXAMPLES } from './examples.ts'

export function openapi(version: string): Record<string, unknown> {
  const components = new Components()
  const paths: Record<string, Record<string, unknown>> = {}
  for (const name of Object.keys(PATHS) as RouteName[]) {
    const route: Route = ROUTES[name]
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operation(name, route, components) }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Sandglass', version, description: 'Sandboxes for code and coding agents' },
    servers: SERVERS,
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: components.schemas,
      examples: Object.fromEntries(Object.entries(EXAMPLES).map(([name, value]) => [name, { value }])),
    },
  }
}

const SERVERS = [
  {
    url: 'http://127.0.0.1:8080',
    description: 'the default address of `sandglass serve`; `listen` in the configuration names others',
  },
  { url: '/', description: 'the daemon that serves this document, also on its unix socket' },
]

function operation(name: RouteName, route: Route, components: Components): Record<string, unknown> {
  const parameters = [
    ...parametersOf(route.params, 'path', components),
    ...parametersOf(route.query, 'query', components),
    ...parametersOf(route.headers, 'header', components),
  ]
  if (route.creates)
    parameters.push({ name: 'Idempotency-Key', in: 'header', required: false, schema: { type: 'string', maxLength: 128 } })
  return {
    operationId: name,
    summary: route.summary,
    ...(route.public ? { security: [] } : {}),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...requestBody(route, components),
    responses: { [successStatus(route)]: success(route, components), ...failures(route, components) },
  }
}

/** Query values are text on the wire, so a parameter has the input type of its schema. */
function parametersOf(
  schema: z.ZodType | undefined,
  place: 'path' | 'query' | 'header',
  components: Components,
): Record<string, unknown>[] {
  if (!schema) return []
  const json = components.expand(schema) as { properties?: Record<string, { description?: string }>; required?: string[] }
  return Object.entries(json.properties ?? {}).map(([name, property]) => ({
    name,
    in: place,
    required: place === 'path' || (json.required ?? []).includes(name),
    ...(property.description ? { description: property.description } : {}),
    schema: property,
  }))
}

function requestBody(route: Route, components: Components): Record<string, unknown> {
  if (route.rawBody)
    return { requestBody: { required: true, content: { [route.rawBody]: { schema: { type: 'string', format: 'binary' } } } } }
  if (route.body) return { requestBody: { content: { 'application/json': described(components.refer(route.body, 'input')) } } }
  return {}
}

const successStatus = (route: Route) => (route.kind === 'websocket' ? '101' : String(route.status ?? 200))

function success(route: Route, components: Components): Record<string, unknown> {
  const type = { json: 'application/json', bytes: 'application/octet-stream', sse: 'text/event-stream', websocket: '' }[
    route.kind
  ]
  if (!type) return { description: 'upgraded to a WebSocket' }
  if (route.kind === 'bytes')
    return { description: route.summary, content: { [type]: { schema: { type: 'string', format: 'binary' } } } }
  return { description: route.summary, content: { [type]: described(components.refer(route.reply, 'output')) } }
}

function failures(route: Route, components: Components): Record<string, unknown> {
  const byStatus = new Map<number, string[]>()
  for (const code of new Set(['INVALID_REQUEST', ...(route.public ? [] : ['UNAUTHORIZED' as const]), ...route.errors] as const)) {
    byStatus.set(ERRORS[code].http, [...(byStatus.get(ERRORS[code].http) ?? []), code])
  }
  const content = { 'application/json': described(components.refer(NAMED_SCHEMAS.Error as z.ZodObject, 'output')) }
  return Object.fromEntries([...byStatus].map(([status, codes]) => [String(status), { description: codes.join(', '), content }]))
}

/** A named schema with its example. */
function described(schema: { $ref?: string }): Record<string, unknown> {
  const name = schema.$ref?.split('/').at(-1)
  if (name === undefined || !Object.hasOwn(EXAMPLES, name)) return { schema }
  return { schema, examples: { [name]: { $ref: `#/components/examples/${name}` } } }
}
