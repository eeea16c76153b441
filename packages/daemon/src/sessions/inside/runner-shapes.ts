// The runner's replies, parsed into the shapes of the API. SECURITY: the runner shares a machine with hostile code, so
// none of its values is passed on unparsed.
import { FileInfo, Port, Process, ProcessTableRow, SandglassError, Shell } from '@sandglass/contract'
import { z } from 'zod'

const time = z
  .int()
  .min(0)
  .max(8.64e15)
  .transform(ms => new Date(ms).toISOString())

export const RunnerShell = Shell.omit({ created_at: true })
  .extend({ created_at_ms: time })
  .transform(({ created_at_ms, ...shell }) => ({ ...shell, created_at: created_at_ms }))

export const RunnerProcess = Process.omit({ created_at: true, ended_at: true, tag: true, exit_code: true, limit_hit: true })
  .extend({
    tag: z.string().nullish(),
    exit_code: z.int().nullish(),
    // The runner of a session that an earlier version started does not send these.
    stdin_open: z.boolean().default(false),
    detached: z.boolean().default(false),
    created_at_ms: time,
    ended_at_ms: time.nullish(),
  })
  .transform(({ created_at_ms, ended_at_ms, ...process }) => ({
    ...process,
    tag: process.tag || null,
    exit_code: process.exit_code ?? null,
    created_at: created_at_ms,
    ended_at: ended_at_ms ?? null,
  }))

/** Positions before which the output of a process with keep_output is stored. On a terminal there is no stderr. */
export const RunnerAcknowledged = z
  .object({ stdout_acknowledged: z.int().min(0), stderr_acknowledged: z.int().min(0).default(0) })
  .transform(reply => ({ stdout: reply.stdout_acknowledged, stderr: reply.stderr_acknowledged }))

export const RunnerTableRow = ProcessTableRow.omit({ created_at: true, tag: true, shell: true })
  .extend({ tag: ProcessTableRow.shape.tag.default(null), shell: ProcessTableRow.shape.shell.default(null), created_at_ms: time })
  .transform(({ created_at_ms, ...row }) => ({ ...row, created_at: created_at_ms }))

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
  // The runner of a session that an earlier version started does not send these.
  disk_free_bytes: z.int().optional(),
  disk_free_files: z.int().optional(),
})

/** Parses a field of a reply. A runner whose reply is invalid counts as lost. */
export function parsed<S extends z.ZodType>(id: string, schema: S, value: unknown): z.output<S> {
  const result = schema.safeParse(value)
  if (!result.success) throw new SandglassError('RUNNER_LOST', { id }, { cause: result.error })
  return result.data
}
