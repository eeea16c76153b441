// Named schemas of the OpenAPI document: every exported object schema, under the name of its export.
import { z } from 'zod'
import { ERRORS } from '../errors.ts'
import * as exec from '../schemas/exec.ts'
import * as files from '../schemas/files.ts'
import * as images from '../schemas/images.ts'
import * as primitives from '../schemas/primitives.ts'
import * as secrets from '../schemas/secrets.ts'
import * as session from '../schemas/session.ts'

type Io = 'input' | 'output'

/** The body of every failed request. */
const ErrorReply = z.object({
  error: z.object({
    code: z.enum(Object.keys(ERRORS)),
    message: z.string(),
    hint: z.string().optional().describe('what to do next'),
    detail: z.unknown().optional(),
    request_id: z.string().optional(),
  }),
})

export const NAMED_SCHEMAS: Readonly<Record<string, z.ZodObject>> = {
  ...objectsOf(session),
  ...objectsOf(exec),
  ...objectsOf(files),
  ...objectsOf(images),
  ...objectsOf(secrets),
  ...objectsOf(primitives),
  Error: ErrorReply,
}

function objectsOf(module: object): Record<string, z.ZodObject> {
  return Object.fromEntries(
    Object.entries(module).filter((entry): entry is [string, z.ZodObject] => entry[1] instanceof z.ZodObject),
  )
}

const NAMES = new Map<z.core.$ZodType, string>(Object.entries(NAMED_SCHEMAS).map(([name, schema]) => [schema, name]))

/** Collects the named schemas that the document refers to. */
export class Components {
  readonly schemas: Record<string, object> = {}
  readonly #io = new Map<string, Io>()

  /** The schema as JSON Schema, with references to named schemas. */
  refer(schema: z.ZodType, io: Io): { $ref?: string } {
    const name = nameOf(schema)
    if (name === undefined) return this.#convert(schema, io)
    const { description } = schema
    return { $ref: this.#define(name, io), ...(description === undefined || NAMES.has(schema) ? {} : { description }) }
  }

  /** The schema as JSON Schema, inline even if it is named. */
  expand(schema: z.ZodType): object {
    return this.#convert(schema, 'input')
  }

  #define(name: string, io: Io): string {
    const known = this.#io.get(name)
    if (known === undefined) {
      this.#io.set(name, io) // before its parts, which may refer to it
      this.schemas[name] = this.#convert(NAMED_SCHEMAS[name] as z.ZodObject, io)
    } else if (
      known !== io &&
      JSON.stringify(this.#convert(NAMED_SCHEMAS[name] as z.ZodObject, io)) !== JSON.stringify(this.schemas[name])
    ) {
      throw new Error(`${name} is not the same in a request and in a reply, and needs two names`)
    }
    return `#/components/schemas/${name}`
  }

  #convert(root: z.ZodType, io: Io): object {
    const { $schema: _, ...json } = z.toJSONSchema(root, {
      io,
      unrepresentable: 'any',
      override: ({ zodSchema, jsonSchema }) => {
        const schema: z.core.$ZodType = zodSchema
        const name = schema === root ? undefined : nameOf(schema)
        if (name === undefined) return
        const { description } = jsonSchema
        for (const key of Object.keys(jsonSchema)) delete jsonSchema[key]
        Object.assign(jsonSchema, { $ref: this.#define(name, io) }, description === undefined ? {} : { description })
      },
    })
    return json
  }
}

/** Also for a copy that differs in its description only. */
function nameOf(schema: z.core.$ZodType): string | undefined {
  const parent = schema._zod.parent
  return NAMES.get(schema) ?? (parent && nameOf(parent))
}
