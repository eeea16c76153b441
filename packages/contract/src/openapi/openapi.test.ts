import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { ROUTES, type Route } from '../routes.ts'
import { PATHS, type RouteName } from '../tables/paths.ts'
import { NAMED_SCHEMAS } from './components.ts'
import { EXAMPLES } from './examples.ts'
import { openapi } from './openapi.ts'

type Content = Record<string, { schema: { $ref?: string }; examples?: Record<string, { $ref: string }> }>
type Parameter = { name: string; in: string; required: boolean; schema: object }
type Operation = {
  operationId: string
  parameters?: Parameter[]
  requestBody?: { content: Content }
  responses: Record<string, { description: string; content?: Content }>
}

const NAMES = Object.keys(PATHS) as RouteName[]
const document = openapi('0.0.0') as {
  openapi: string
  servers: { url: string; description: string }[]
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, object>; examples: Record<string, { value: unknown }> }
}
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ path, method, ...operation })),
)
const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(match => match[1] ?? '')

describe('openapi', () => {
  it('is version 3.1, has one operation per route, and names the server', () => {
    expect(document.openapi).toBe('3.1.0')
    expect(operations.map(o => o.operationId).toSorted()).toEqual(NAMES.toSorted())
    for (const { url } of document.servers) expect(URL.canParse(url, 'http://127.0.0.1')).toBe(true)
    expect(document.servers[0]?.url).toBe('http://127.0.0.1:8080')
  })

  it('declares each path parameter once, as required', () => {
    for (const { path, parameters = [] } of operations) {
      const declared = parameters.filter(p => p.in === 'path')
      expect(declared.map(p => p.name)).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(m => m[1]))
      expect(declared.every(p => p.required)).toBe(true)
    }
  })

  it('every operation has exactly one success, and every answer a description and a schema for each type', () => {
    for (const { responses } of operations) {
      expect(Object.keys(responses).filter(status => /^[12]/.test(status))).toHaveLength(1)
      for (const { description, content = {} } of Object.values(responses)) {
        expect(description).not.toBe('')
        for (const { schema } of Object.values(content)) expect(schema).toBeTypeOf('object')
      }
    }
  })

  it('every reference has a target, and every component is referenced', () => {
    const found = (reference: string) =>
      reference.split('/').reduce((at: unknown, name) => (name === '#' ? at : (at as Record<string, unknown>)?.[name]), document)
    for (const reference of references) expect(found(reference), reference).toBeTypeOf('object')
    const { schemas, examples } = document.components
    const all = [
      ...Object.keys(schemas).map(name => `#/components/schemas/${name}`),
      ...Object.keys(examples).map(name => `#/components/examples/${name}`),
    ]
    expect(all.filter(reference => !references.includes(reference))).toEqual([])
  })

  it.each(NAMES)('%s: bodies and replies that have a name in the contract are components', name => {
    const route: Route = ROUTES[name]
    const operation = operations.find(o => o.operationId === name)
    const isNamed = (schema: z.ZodType | undefined) => Object.values(NAMED_SCHEMAS).some(named => named === schema)
    const [success] = Object.entries(operation?.responses ?? {}).filter(([status]) => status.startsWith('2'))
    const nameOf = (content: Content | undefined) => Object.values(content ?? {})[0]?.schema.$ref
    if (isNamed(route.body)) expect(nameOf(operation?.requestBody?.content)).toMatch(/^#\/components\/schemas\/\w+$/)
    if (isNamed(route.reply)) expect(nameOf(success?.[1].content)).toMatch(/^#\/components\/schemas\/\w+$/)
  })

  it('describes a session once, also where a list holds it', () => {
    expect(document.components.schemas.SessionList).toMatchObject({
      properties: { items: { type: 'array', items: { $ref: '#/components/schemas/Session' } } },
    })
    expect(JSON.stringify(document).split('"last_activity_at":{').length - 1).toBe(1)
  })

  it.each(Object.entries(EXAMPLES))('the example of %s matches its schema', (name, value) => {
    const schema = NAMED_SCHEMAS[name]
    expect(schema?.parse(value)).toEqual(value)
  })

  it('has examples for creating a session, exec, starting a process and writing a file', () => {
    for (const name of ['createSession', 'exec', 'startProcess', 'fsWrite'] as const) {
      const operation = operations.find(o => o.operationId === name)
      const contents = [operation?.requestBody?.content, ...Object.values(operation?.responses ?? {}).map(r => r.content)]
      for (const content of contents) expect(Object.keys(content?.['application/json']?.examples ?? {})).toHaveLength(1)
    }
  })

  it('has component schemas that a validator can be made from', () => {
    for (const [name, schema] of Object.entries(document.components.schemas)) {
      const whole = { ...schema, $defs: document.components.schemas }
      const local = JSON.parse(JSON.stringify(whole).replaceAll('#/components/schemas/', '#/$defs/'))
      const validator = z.fromJSONSchema(local)
      if (Object.hasOwn(EXAMPLES, name)) expect(validator.safeParse(EXAMPLES[name]).error, name).toBeUndefined()
    }
  })

  it('can be sent as JSON unchanged', () => {
    expect(JSON.parse(JSON.stringify(document))).toEqual(document)
  })
})
