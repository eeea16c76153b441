// Commands in a shell, and processes of their own.
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
    shell: ShellName.optional().describe('which shell; main when absent, made on first use'),
    user: User.optional().describe(
      "user that runs the command, in a shell of that user's own: NAME@USER unless the named shell is that user's",
    ),
    cwd: Path.optional().describe('folder of this command; the shell is back in its own folder afterwards'),
    env: Env.optional().describe('variables of this command, exported; the shell has its own back afterwards'),
    env_vars: EnvVars,
    stdin_path: Path.optional().describe(
      'file or FIFO in the sandbox that the command reads as stdin; stdin is empty when absent',
    ),
    timeout_ms: z
      .int()
      .min(LIMITS.exec_timeout_ms.min)
      .optional()
      .describe(
        'the command is ended after this, the wait for a busy shell included; exec: 30,000 when absent, at most defaults.max_exec_timeout_ms; exec/stream: none when absent, and no maximum',
      ),
    detach: z
      .boolean()
      .optional()
      .describe('the command goes on when the client leaves; otherwise leaving interrupts it, then kills it'),
    max_output_bytes: z
      .int()
      .min(0)
      .max(LIMITS.exec_output_bytes.max)
      .optional()
      .describe('output kept; the middle is cut beyond it'),
    raw_output: z.boolean().optional().describe('keep carriage returns and escape sequences as printed'),
  }),
)
export type ExecRequest = Omit<z.infer<typeof ExecRequest>, 'env_vars'>

export const ExecResult = z.object({
  exit_code: z.int().describe("the command's own; 128+n for a signal, 124 for a timeout"),
  shell: ShellName.describe('the shell that it ran in'),
  cwd: z.string().describe('folder of the shell afterwards'),
  output: z.string().describe('stdout and stderr as the terminal saw them; bytes that are not UTF-8 become U+FFFD'),
  truncated: z.boolean(),
  timed_out: z.boolean(),
  timeout_ms: z.int().nullable().describe('the timeout that applied; null for none'),
  started: z.boolean().describe('false: it was ended while it waited for a busy shell, and never ran'),
  shell_exited: z.boolean().describe('the command ended its shell; the next exec starts a fresh one'),
  duration_ms: z.number(),
  limit_hit: NullableLimitHit.describe(
    'limit that the session reached since its last failed command; null for none, and for a command that succeeded',
  ),
})
export type ExecResult = z.infer<typeof ExecResult>

/** Events of exec/stream, in order: waiting and started if another command has the shell, any number of chunk, then one done or error. */
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
      .describe('program and arguments; no shell in between'),
    cwd: Path.optional(),
    env: Env.optional(),
    env_vars: EnvVars,
    user: User.optional(),
    tag: z
      .string()
      .regex(PROCESS_TAG, 'must be 1 to 64 of a-z, A-Z, 0-9, _, ., : and -, starting with a letter or a digit')
      .optional()
      .describe('your own name for the process'),
    timeout_ms: z.int().min(1).optional().describe('the process group is ended after this; none when absent'),
    stdin: z.boolean().optional().describe('true keeps stdin open for the stdin call or an attached stream'),
    tty: Size.optional().describe('run on a terminal of this size; stdout and stderr become one'),
    hold_output: z.boolean().optional().describe('wait for the first attachment before dropping output that nobody has read'),
    detach: z.boolean().optional().describe('true holds the lease of the session until the process ends, with nobody attached'),
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
  stdin_open: z.boolean().describe('input can be sent to it'),
  detached: z.boolean().describe('it holds the lease of the session while it runs'),
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
  user: z.string().max(32).describe('sandbox, root, or the number of another user inside'),
  state: z.string().max(1).describe('as ps shows it: R running, S and D waiting, T stopped, Z ended'),
  cpu_ms: z.int().describe('processor time so far'),
  memory_bytes: z.int().describe('memory that is resident'),
  command: z.string().max(8192).describe('command line, or the name in brackets; a process chooses it itself'),
  tag: z.string().max(64).nullable().describe('tag of a process that was started through the API'),
  shell: ShellName.nullable().describe('name of a shell'),
  created_at: Timestamp,
})
export const ProcessTable = z.object({
  items: z.array(ProcessTableRow),
  truncated: z.boolean().describe('there are more processes than are listed'),
})
export const SignalRequest = z.strictObject({
  signal: Signal,
  group: z
    .boolean()
    .optional()
    .describe(
      'true signals the whole group of the process, false the process alone; when absent the group of a process that was started through the API, and no other',
    ),
})
export const StdinRequest = z.strictObject({
  text: z.string().optional(),
  content_base64: z.base64().optional(),
  close: z.boolean().optional().describe('end of input after this'),
})
