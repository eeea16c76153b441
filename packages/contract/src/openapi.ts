// OpenAPI 3.1 from ROUTES. Generated on request, so it can never lag behind the code.
import { z } from 'zod'
import { ERRORS } from './errors.ts'
import { PATHS, type RouteName } from './paths.ts'
import { ROUTES, type Route } from './routes.ts'

export function openapi(version: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const name of Object.keys(PATHS) as RouteName[]) {
    const route: Route = ROUTES[name]
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operation(name, route) }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Sandglass', version, description: 'Sandboxes for code and coding agents' },
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: { Error: ERROR_SCHEMA },
    },
  }
}

function operation(name: RouteName, route: Route): Record<string, unknown> {
  const parameters = [
    ...parametersOf(route.params, 'path'),
    ...parametersOf(route.query, 'query'),
    ...parametersOf(route.headers, 'header'),
  ]
  if (route.creates)
    parameters.push({ name: 'Idempotency-Key', in: 'header', required: false, schema: { type: 'string', maxLength: 128 } })
  return {
    operationId: name,
    summary: route.summary,
    ...(route.public ? { security: [] } : {}),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...requestBody(route),
    responses: { [successStatus(route)]: success(route), ...failures(route) },
  }
}

function parametersOf(schema: z.ZodType | undefined, place: 'path' | 'query' | 'header'): Record<string, unknown>[] {
  if (!schema) return []
  const json = jsonSchema(schema) as { properties?: Record<string, { description?: string }>; required?: string[] }
  return Object.entries(json.properties ?? {}).map(([name, property]) => ({
    name,
    in: place,
    required: place === 'path' || (json.required ?? []).includes(name),
    ...(property.description ? { description: property.description } : {}),
    schema: property,
  }))
}

function requestBody(route: Route): Record<string, unknown> {
  if (route.rawBody)
    return { requestBody: { required: true, content: { [route.rawBody]: { schema: { type: 'string', format: 'binary' } } } } }
  if (route.body) return { requestBody: { content: { 'application/json': { schema: jsonSchema(route.body) } } } }
  return {}
}

const successStatus = (route: Route) => (route.kind === 'websocket' ? '101' : String(route.status ?? 200))

function success(route: Route): Record<string, unknown> {
  const type = { json: 'application/json', bytes: 'application/octet-stream', sse: 'text/event-stream', websocket: '' }[
    route.kind
  ]
  if (!type) return { description: 'upgraded to a WebSocket' }
  const schema = route.kind === 'bytes' ? { type: 'string', format: 'binary' } : jsonSchema(route.reply, 'output')
  return { description: route.summary, content: { [type]: { schema } } }
}

function failures(route: Route): Record<string, unknown> {
  const byStatus = new Map<number, string[]>()
  for (const code of new Set(['INVALID_REQUEST', ...(route.public ? [] : ['UNAUTHORIZED' as const]), ...route.errors] as const)) {
    byStatus.set(ERRORS[code].http, [...(byStatus.get(ERRORS[code].http) ?? []), code])
  }
  const content = { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } }
  return Object.fromEntries([...byStatus].map(([status, codes]) => [String(status), { description: codes.join(', '), content }]))
}

/** Query values are text on the wire, so parameters are described by what they accept. */
const jsonSchema = (schema: z.ZodType, io: 'input' | 'output' = 'input') => z.toJSONSchema(schema, { io, unrepresentable: 'any' })

const ERROR_SCHEMA = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['code', 'message'],
      properties: {
        code: { type: 'string', enum: Object.keys(ERRORS) },
        message: { type: 'string' },
        hint: { type: 'string' },
        detail: {},
        request_id: { type: 'string' },
      },
    },
  },
}
