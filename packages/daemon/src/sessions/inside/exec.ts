// POST …/exec: a command line in a shell, answered when it ends. The path that has to be fast: no store, no turn, one request to the runner.
import { randomUUID } from 'node:crypto'
import { DEFAULT_SHELL, type ExecRequest, type ExecResult, LIMITS, SandglassError, SHELL_NAME } from '@sandglass/contract'
import type { SessionContext } from '../context.ts'
import { type ExecHold, holdForExec } from '../lease/exec-hold.ts'
import { limitHit } from '../limits/limit-hits.ts'
import { type LiveSession, runningSession } from '../live.ts'
import { boundedCwd } from './bounded-cwd.ts'
import { cleanOutput } from './clean-output.ts'

/** `gone` aborts when the client leaves: its command is then cancelled, unless it asked for `detach`. */
export async function execCommand(
  context: SessionContext,
  ref: string,
  request: ExecRequest,
  gone: AbortSignal,
): Promise<ExecResult> {
  const timeoutMs = blockingTimeout(context, request)
  const fields = {
    ...execFields(request),
    timeout_ms: timeoutMs,
    max_output_bytes: request.max_output_bytes ?? LIMITS.exec_output_bytes.default,
  }
  const live = await runningSession(context, ref, 'exec in')
  const hold = holdForExec(context, live, timeoutMs)
  const { seen } = live.limits
  const timed = context.metrics.execSeconds.startTimer()
  try {
    const reply = live.link.request('exec', fields)
    using _ = whenGone(gone, () => cancelExec(context, live, request, fields.key, hold))
    const { message, body } = await reply
    const done = execDone(live, fields.shell, timeoutMs, message)
    context.metrics.execs.inc({ outcome: done.timed_out ? 'timed_out' : 'ended' })
    const limit_hit = await limitHit(context, live, done.exit_code, seen)
    return { ...done, limit_hit, output: await cleanOutput(body, request.raw_output === true) }
  } catch (error) {
    context.metrics.execs.inc({ outcome: 'error' })
    throw error
  } finally {
    timed()
    hold.release()
  }
}

/** A longer timeout than the operator allows is refused, not shortened. */
function blockingTimeout({ config }: SessionContext, { timeout_ms }: ExecRequest): number {
  const max = config.defaults.max_exec_timeout_ms
  if (timeout_ms === undefined) return Math.min(LIMITS.exec_timeout_ms.default, max)
  if (timeout_ms > max) throw new SandglassError('TIMEOUT_TOO_LONG', { timeout_ms, max_ms: max })
  return timeout_ms
}

/** What the runner is told of a command in both calls. The key is what it can be cancelled by. */
export function execFields({ cmd, shell = DEFAULT_SHELL, user, cwd, env, stdin_path }: ExecRequest) {
  return { cmd, shell, user, cwd, env, stdin_path, key: randomUUID() }
}

/** Calls back when the client leaves, at once if it has already. */
export function whenGone(gone: AbortSignal, callback: () => void): Disposable {
  if (gone.aborted) callback()
  else gone.addEventListener('abort', callback)
  return { [Symbol.dispose]: () => gone.removeEventListener('abort', callback) }
}

/**
 * Ends a command whose client has left. Clients also lose their connections when the daemon stops: their commands go on, so that a
 * restart loses nothing.
 */
export function cancelExec(
  context: SessionContext,
  live: LiveSession,
  { detach }: ExecRequest,
  key: string,
  hold: ExecHold,
): void {
  if (detach || context.closing.aborted) return
  hold.cancelled()
  live.link
    .request('exec.cancel', { key })
    .catch(err => context.log.debug({ err, sessionId: live.row.id }, 'a command could not be cancelled'))
}

/** The result's fields. SECURITY: the runner shares a machine with hostile code, so each is checked. */
export function execDone(
  live: LiveSession,
  asked: string,
  timeout_ms: number | null,
  message: { readonly [field: string]: unknown },
): Omit<ExecResult, 'output' | 'limit_hit'> {
  const { exit_code, truncated, timed_out, started, shell_exited, duration_ms } = message
  if (!Number.isInteger(exit_code) || typeof message.cwd !== 'string' || typeof duration_ms !== 'number') {
    throw new SandglassError('RUNNER_LOST', { id: live.row.id }, { cause: new Error('the result of a command lacks a field') })
  }
  const cwd = boundedCwd(message.cwd)
  const shell = shellName(message.shell, asked)
  if (shell === DEFAULT_SHELL) live.row.cwd = cwd
  return {
    exit_code: exit_code as number,
    shell,
    cwd,
    truncated: truncated === true,
    timed_out: timed_out === true,
    timeout_ms,
    started: started !== false,
    shell_exited: shell_exited === true,
    duration_ms,
  }
}

/** The shell that the runner chose for a command. */
export const shellName = (told: unknown, asked: string): string =>
  typeof told === 'string' && SHELL_NAME.test(told) ? told : asked
