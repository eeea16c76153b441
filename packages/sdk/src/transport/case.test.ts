import { ROUTES, type RouteName } from '@sandglass/contract'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { camelName, snakeName, toCamel, toSnake } from './case.ts'

test('every field of the contract survives the way there and back', () => {
  const names = new Set<string>()
  for (const name of Object.keys(ROUTES) as RouteName[]) {
    const route: { body?: z.ZodType; query?: z.ZodType; reply: z.ZodType } = ROUTES[name]
    for (const schema of [route.body, route.query, route.reply])
      if (schema) collect(z.toJSONSchema(schema, { unrepresentable: 'any', io: 'input' }), names)
  }
  expect(names.size).toBeGreaterThan(50)
  for (const name of names) expect(snakeName(camelName(name))).toBe(name)
})

test("the user's own keys are left alone", () => {
  const spec = { memoryMb: 512, env: { MY_KEY: 'a', camelCase: 'b' }, labels: { some_label: 'x' } }
  expect(toSnake(spec)).toEqual({ memory_mb: 512, env: { MY_KEY: 'a', camelCase: 'b' }, labels: { some_label: 'x' } })
  expect(toSnake({ envVars: { camelCase: 'b' } })).toEqual({ env_vars: { camelCase: 'b' } })
  expect(toCamel({ next_cursor: null, items: [{ env_names: ['A_B'], labels: { a_b: '1' } }] })).toEqual({
    nextCursor: null,
    items: [{ envNames: ['A_B'], labels: { a_b: '1' } }],
  })
})

test('the names in a map of shapes are left alone, and the fields of its shapes are converted', () => {
  const mcp = { my_server: { envName: 'A_B', env: { camelCase: 'x' } }, env: { envName: 'C' } }
  expect(toSnake({ mcp })).toEqual({
    mcp: { my_server: { env_name: 'A_B', env: { camelCase: 'x' } }, env: { env_name: 'C' } },
  })
  expect(toCamel(toSnake({ mcp }))).toEqual({ mcp })
})

test('the lines of an agent keep their keys', () => {
  const events = [{ session_id: 's', tool_use: { input_json: 1 } }]
  expect(toCamel({ request_text: 'x', events })).toEqual({ requestText: 'x', events })
})

test('a reply cannot reach a prototype', () => {
  const value = toCamel(JSON.parse('{"__proto__":{"is_admin":true},"a_b":1}')) as Record<string, unknown>
  expect(value.isAdmin).toBeUndefined()
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
})

function collect(schema: unknown, into: Set<string>): void {
  if (typeof schema !== 'object' || schema === null) return
  for (const [key, value] of Object.entries(schema)) {
    if (key === 'properties') for (const name of Object.keys(value as object)) into.add(name)
    collect(value, into)
  }
}
