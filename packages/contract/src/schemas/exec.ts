// Commands in a shell, and processes.
import { z } from 'zod'
import { PROCESS_TAG } from '../tables/ids.ts'
import { LIMITS } from '../tables/limits.ts'
import {
  Env,
  EnvVars,
  NullableLimitHit,
  Path,
  queryInt,
  ShellName,
  Signal,
  Size,
  Timestamp,
  User,
  withEnvAlias,
} from './primitives.ts'

const utf8Length = (text: string) => new TextEncoder().encode(text).length

export const ExecRequest = withEnvAlias(
  z.strictObject({
    cmd: z
      .string()
      .min(1)
      .refine(c => utf8Length(c) <= LIMITS.exec_command_bytes.max, `must be at most ${LIMITS.exec_command_bytes.max} bytes`)
      .refine(c => !c.includes('\0'), 'must not contain NUL')
      .describe('command line, evaluated in the shell: cd, export, functions and jobs persist'),
    shell: ShellName.optional().describe('name of the shell; main when absent; created on first use'),
    user: User.optional().describe(
      'user that runs the command; another user than that of the shell gets a shell of its own, NAME@USER',
    ),
    cwd: Path.optional().describe('working directory of this command only'),
    env: Env.optional().describe('environment variables of this command only'),
    env_vars: EnvVars,
    stdin_path: Path.optional().describe('file or FIFO in the sandbox to read as stdin; stdin is empty when absent'),
    timeout_ms: z
      .int()
      .min(LIMITS.exec_timeout_ms.min)
      .optional()
      .describe(
        'time after which the command is ended, including the wait for a busy shell; exec: 30,000 when absent, at most defaults.max_exec_timeout_ms; exec/stream: none when absent, no maximum',
      ),
    detach: z
      .boolean()
      .optional()
      .describe('true: the command keeps running when the client disconnects; otherwise it is interrupted, then killed'),
    max_output_bytes: z
      .int()
      .min(0)
      .max(LIMITS.exec_output_bytes.max)
      .optional()
      .describe('output that is kept; the middle of a longer output is cut'),
    raw_output: z.boolean().optional().describe('true: keep carriage returns and escape sequences'),
  }),
)
export type ExecRequest = Omit<z.infer<typeof ExecRequest>, 'env_vars'>

export const ExecResult = z.object({
  exit_code: z.int().describe('exit code of the command; 128+n for signal n, 124 for a timeout'),
  shell: ShellName.describe('shell that the command ran in'),
  cwd: z.string().describe('working directory of the shell after the command'),
  output: z.string().describe('stdout and stderr in the order of the terminal; bytes that are not UTF-8 become U+FFFD'),
  truncated: z.boolean(),
  timed_out: z.boolean(),
  timeout_ms: z.int().nullable().describe('timeout of the command; null for none'),
  started: z.boolean().describe('false: the command was ended while it waited for a busy shell, and never ran'),
  shell_exited: z.boolean().describe('true: the command ended its shell; the next exec starts a new one'),
  duration_ms: z.number(),
  limit_hit: NullableLimitHit.describe(
    'limit that the session reached since its last failed command; null for none and for a successful command',
  ),
})
export type ExecResult = z.infer<typeof ExecResult>

/** Events of exec/stream, in order: waiting and started if the shell is busy, any number of chunk, then one done or error. */
export const ExecWait = z.object({ shell: ShellName, timestamp: Timestamp })
export const ExecChunk = z.object({ chunk: z.string(), timestamp: Timestamp })
export const ExecDone = ExecResult.omit({ output: true })

export const ShellSpec = withEnvAlias(
  z.strictObject({
    name: ShellName,
    cwd: Path.optional(),
    env: Env.optional(),
    env_vars: EnvVars,
    user: User.optional(),
    size: Size.optional(),
  }),
)
export const Shell = z.object({
  name: ShellName,
  pid: z.int(),
  program: z.enum(['bash', 'sh']),
  user: User,
  cwd: z.string(),
  busy: z.boolean(),
  attached: z.int().describe('terminals attached'),
  created_at: Timestamp,
})
export const ShellInterrupt = z.object({ interrupted: z.boolean().describe('false: nothing ran in the shell') })
export const ShellList = z.object({ items: z.array(Shell) })
export const ShellAttachQuery = z.strictObject({
  cols: queryInt(LIMITS.terminal_size.min, LIMITS.terminal_size.max).optional(),
  rows: queryInt(LIMITS.terminal_size.min, LIMITS.terminal_size.max).optional(),
})

export const ProcessSpec = withEnvAlias(
  z.strictObject({
    argv: z
      .array(z.string().refine(a => !a.includes('\0'), 'must not contain NUL'))
      .min(1)
      .refine(
        a => a.reduce((n, s) => n + utf8Length(s) + 1, 0) <= LIMITS.argv_bytes.max,
        `must be at most ${LIMITS.argv_bytes.max} bytes`,
      )
      .describe('program and arguments; run without a shell'),
    cwd: Path.optional(),
    env: Env.optional(),
    env_vars: EnvVars,
    user: User.optional(),
    tag: z
      .string()
      .regex(PROCESS_TAG, 'must be 1 to 64 of a-z, A-Z, 0-9, _, ., : and -, starting with a letter or a digit')
      .optional()
      .describe('your name for the process'),
    timeout_ms: z.int().min(1).optional().describe('time after which the process group is ended; none when absent'),
    stdin: z.boolean().optional().describe('true: stdin stays open for the stdin route or an attached client'),
    tty: Size.optional().describe('run on a terminal of this size; stderr is then part of stdout'),
    hold_output: z
      .boolean()
      .optional()
      .describe('true: pause the process instead of dropping output, until the first client attaches'),
    detach: z
      .boolean()
      .optional()
      .describe('true: the process keeps the session alive until it ends, also without an attached client'),
  }),
)
export type ProcessSpec = Omit<z.infer<typeof ProcessSpec>, 'env_vars'>

export const Process = z.object({
  pid: z.int(),
  tag: z.string().nullable(),
  argv: z.array(z.string()),
  user: User,
  cwd: z.string(),
  running: z.boolean(),
  exit_code: z.int().nullable().describe('128+n for a signal, 124 for a timeout'),
  timed_out: z.boolean(),
  tty: z.boolean(),
  stdin_open: z.boolean().describe('true: stdin is open'),
  detached: z.boolean().describe('true: the process keeps the session alive while it runs'),
  created_at: Timestamp,
  ended_at: Timestamp.nullable(),
  limit_hit: NullableLimitHit.describe(
    'limit that the session reached between the start and the failure of the process; null for none that is known',
  ),
})
export type Process = z.infer<typeof Process>
export const ProcessList = z.object({ items: z.array(Process) })
export const ProcessTableRow = z.object({
  pid: z.int(),
  parent_pid: z.int(),
  user: z.string().max(32).describe('sandbox, root, or the id of another user in the sandbox'),
  state: z.string().max(1).describe('state letter as in ps: R running, S and D waiting, T stopped, Z ended'),
  cpu_ms: z.int().describe('cpu time so far'),
  memory_bytes: z.int().describe('resident memory'),
  command: z.string().max(8192).describe('command line, or the name in brackets; chosen by the process itself'),
  tag: z.string().max(64).nullable().describe('tag of a process that was started through the API'),
  shell: ShellName.nullable().describe('name of a shell'),
  created_at: Timestamp,
})
export const ProcessTable = z.object({
  items: z.array(ProcessTableRow),
  truncated: z.boolean().describe('true: there are more processes than listed'),
})
export const SignalRequest = z.strictObject({
  signal: Signal,
  group: z
    .boolean()
    .optional()
    .describe(
      'true: signal the process group, false: the process only; when absent: the group for a process that was started through the API, else the process only',
    ),
})
export const StdinRequest = z.strictObject({
  text: z.string().optional(),
  content_base64: z.base64().optional(),
  close: z.boolean().optional().describe('true: close stdin afterwards'),
})
