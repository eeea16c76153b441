import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { ROUTES, type Route } from './routes.ts'
import { Config } from './schemas/config.ts'
import { ContextFile } from './schemas/contexts.ts'
import { NAMED_FIELDS, OPAQUE_FIELDS, PATHS, type RouteName } from './tables/paths.ts'

const NAMES = Object.keys(PATHS) as RouteName[]
const routeOf = (name: RouteName): Route => ROUTES[name]

describe('the routes', () => {
  it('are the same set as the paths', () => {
    expect(Object.keys(ROUTES)).toEqual(NAMES)
  })

  it('no two share a method and a path', () => {
    const seen = NAMES.map(n => `${PATHS[n].method} ${PATHS[n].path.replaceAll(/\{\w+\}/g, '{}')}`)
    expect(new Set(seen).size).toBe(seen.length)
  })

  it.each(NAMES)('%s: the parameters in its path are those of its schema', name => {
    const inPath = [...PATHS[name].path.matchAll(/\{(\w+)\}/g)].map(m => m[1])
    const schema = routeOf(name).params
    expect(schema ? Object.keys(propertiesOf(schema)) : []).toEqual(inPath)
  })

  it.each(NAMES)('%s: a GET has no body, and a request refuses unknown fields', name => {
    const route = routeOf(name)
    if (route.method === 'GET') expect(route.body ?? route.rawBody).toBeUndefined()
    for (const schema of [route.params, route.query, route.body]) {
      if (schema) expect(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }).additionalProperties).toBe(false)
    }
  })

  it('every field that holds the user’s own keys is opaque to case conversion', () => {
    const records = new Set<string>()
    for (const name of NAMES) {
      const route = routeOf(name)
      for (const schema of [route.body, route.reply, route.query]) if (schema) collectRecords(schema, records)
    }
    collectRecords(ContextFile, records)
    const known: readonly string[] = [...OPAQUE_FIELDS, ...NAMED_FIELDS]
    expect([...records].filter(field => !known.includes(field))).toEqual([])
    expect(records.size).toBeGreaterThan(0)
  })

  it('the only other maps are in the configuration, which is never converted', () => {
    const records = new Set<string>()
    collectRecords(Config, records)
    expect([...records]).toEqual(['registries', 'runtimes', 'overrides', 'versions', 'agent_api_keys'])
  })
})

function propertiesOf(schema: z.ZodType): Record<string, unknown> {
  return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }).properties ?? {}
}

/** Walks a schema and notes the name of every field whose value is a map or anything. */
function collectRecords(schema: z.ZodType, into: Set<string>, field = ''): void {
  const def = schema.def as {
    type: string
    innerType?: z.ZodType
    element?: z.ZodType
    options?: z.ZodType[]
    in?: z.ZodType
    shape?: Record<string, z.ZodType>
  }
  if (def.type === 'record' || (def.type === 'unknown' && field !== '')) into.add(field)
  for (const inner of [def.innerType, def.element, def.in, ...(def.options ?? [])]) if (inner) collectRecords(inner, into, field)
  for (const [name, value] of Object.entries(def.shape ?? {})) collectRecords(value, into, name)
}
