// What the runner answers, parsed into what the API shows. SECURITY: the runner shares a machine with hostile code, so
// nothing it says is passed on unparsed.
import { setImmediate as turn } from 'node:timers/promises'
import { FileInfo, Port, Process, SandglassError, Shell } from '@sandglass/contract'
import { z } from 'zod'

const time = z
  .int()
  .min(0)
  .max(8.64e15)
  .transform(ms => new Date(ms).toISOString())

export const RunnerShell = Shell.omit({ created_at: true })
  .extend({ created_at_ms: time })
  .transform(({ created_at_ms, ...shell }) => ({ ...shell, created_at: created_at_ms }))

export const RunnerProcess = Process.omit({ created_at: true, ended_at: true, tag: true, exit_code: true })
  .extend({ tag: z.string().nullish(), exit_code: z.int().nullish(), created_at_ms: time, ended_at_ms: time.nullish() })
  .transform(({ created_at_ms, ended_at_ms, ...process }) => ({
    ...process,
    tag: process.tag || null,
    exit_code: process.exit_code ?? null,
    created_at: created_at_ms,
    ended_at: ended_at_ms ?? null,
  }))

export const RunnerEntry = FileInfo.omit({ modified_at: true })
  .extend({ modified_at_ms: time })
  .transform(({ modified_at_ms, ...entry }) => ({ ...entry, modified_at: modified_at_ms }))

export const RunnerPort = Port.omit({ pid: true, command: true })
  .extend({ pid: z.int().nullish(), command: z.string().nullish() })
  .transform(port => ({ ...port, pid: port.pid ?? null, command: port.command ?? null }))

export const RunnerStats = z.object({
  shells: z.int(),
  processes: z.int(),
  uptime_ms: z.number().transform(Math.round),
  disk_used_bytes: z.int(),
  disk_limit_bytes: z.int(),
})

/** How many items are checked before everyone else has a turn. */
const AT_ONCE = 1000

/** A list that a sandbox can make very long. */
export async function parsedItems<S extends z.ZodType>(id: string, item: S, value: unknown): Promise<z.output<S>[]> {
  if (!Array.isArray(value)) throw new SandglassError('RUNNER_LOST', { id }, { cause: new Error('a list is no list') })
  const items: z.output<S>[] = []
  for (let at = 0; at < value.length; at++) {
    if (at > 0 && at % AT_ONCE === 0) await turn()
    items.push(parsed(id, item, value[at]))
  }
  return items
}

/** Parses a field of a reply; a runner that answers something else is as good as lost. */
export function parsed<S extends z.ZodType>(id: string, schema: S, value: unknown): z.output<S> {
  const result = schema.safeParse(value)
  if (!result.success) throw new SandglassError('RUNNER_LOST', { id }, { cause: result.error })
  return result.data
}

export const jsonBody = (id: string, body: Buffer): unknown => {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch (cause) {
    throw new SandglassError('RUNNER_LOST', { id }, { cause })
  }
}
