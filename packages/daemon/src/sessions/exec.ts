// POST …/exec: a command line in a shell, answered when it ends. The path that has to be fast: no store, no turn, one request to the runner.
import { DEFAULT_SHELL, type ExecRequest, type ExecResult, LIMITS, SandglassError } from '@sandglass/contract'
import { boundedCwd } from './bounded-cwd.ts'
import { cleanOutput } from './clean-output.ts'
import { holdForExec } from './exec-hold.ts'
import { limitHit } from './limit-hits.ts'
import { type LiveSession, runningSession } from './live.ts'
import type { World } from './world.ts'

export async function execCommand(world: World, ref: string, request: ExecRequest): Promise<ExecResult> {
  const fields = execFields(world, request)
  const live = await runningSession(world, ref, 'exec in')
  const release = holdForExec(world, live, fields)
  const { seen } = live.limits
  const timed = world.metrics.execSeconds.startTimer()
  try {
    const { message, body } = await live.link.request('exec', fields)
    const done = execDone(live, fields.shell, message)
    world.metrics.execs.inc({ outcome: done.timed_out ? 'timed_out' : 'ended' })
    const limit_hit = await limitHit(world, live, done.exit_code, seen)
    return { ...done, limit_hit, output: await cleanOutput(body, request.raw_output === true) }
  } catch (error) {
    world.metrics.execs.inc({ outcome: 'error' })
    throw error
  } finally {
    timed()
    release()
  }
}

/** A longer timeout than the operator allows is refused, not shortened. */
export function execFields(
  { config }: World,
  request: ExecRequest,
): { cmd: string; shell: string; timeout_ms: number; max_output_bytes: number } {
  const max = config.defaults.max_exec_timeout_ms
  const timeout_ms = request.timeout_ms ?? Math.min(LIMITS.exec_timeout_ms.default, max)
  if (timeout_ms > max) throw new SandglassError('TIMEOUT_TOO_LONG', { timeout_ms, max_ms: max })
  return {
    cmd: request.cmd,
    shell: request.shell ?? DEFAULT_SHELL,
    timeout_ms,
    max_output_bytes: request.max_output_bytes ?? LIMITS.exec_output_bytes.default,
  }
}

/** The result's fields. SECURITY: the runner shares a machine with hostile code, so each is checked. */
export function execDone(
  live: LiveSession,
  shell: string,
  message: { readonly [field: string]: unknown },
): Omit<ExecResult, 'output' | 'limit_hit'> {
  const { exit_code, truncated, timed_out, shell_exited, duration_ms } = message
  if (!Number.isInteger(exit_code) || typeof message.cwd !== 'string' || typeof duration_ms !== 'number') {
    throw new SandglassError('RUNNER_LOST', { id: live.row.id }, { cause: new Error('the result of a command lacks a field') })
  }
  const cwd = boundedCwd(message.cwd)
  if (shell === DEFAULT_SHELL) live.row.cwd = cwd
  return {
    exit_code: exit_code as number,
    cwd,
    truncated: truncated === true,
    timed_out: timed_out === true,
    shell_exited: shell_exited === true,
    duration_ms,
  }
}
