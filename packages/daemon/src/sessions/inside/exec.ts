// POST …/exec: runs a command line in a shell and replies when it ends. This path has to be fast: no store, no mutex, one request to the runner.
import { randomUUID } from 'node:crypto'
import { DEFAULT_SHELL, type ExecRequest, type ExecResult, LIMITS, SandglassError, SHELL_NAME } from '@sandglass/contract'
import type { SessionContext } from '../context.ts'
import { type ExecHold, holdForExec } from '../lease/exec-hold.ts'
import { limitHit } from '../limits/limit-hits.ts'
import { type LiveSession, runningSession } from '../live.ts'
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
  const measured = measureExec(context)
  try {
    const reply = live.link.request('exec', fields)
    using _ = whenGone(gone, () => cancelExec(context, live, request, fields.key, hold))
    const { message, body } = await reply
    const done = execDone(live, fields.shell, timeoutMs, message)
    const limit_hit = await limitHit(context, live, done.exit_code, seen)
    const output = await cleanOutput(body, request.raw_output === true)
    measured(done.timed_out ? 'timed_out' : 'ended')
    return { ...done, limit_hit, output }
  } catch (error) {
    measured('error')
    throw error
  } finally {
    hold.release()
  }
}

type Outcome = 'ended' | 'timed_out' | 'error'

/** Starts to measure a command. The returned function counts it once, with its first outcome. */
export function measureExec({ metrics }: SessionContext): (outcome: Outcome) => void {
  const timed = metrics.execSeconds.startTimer()
  let isCounted = false
  return outcome => {
    if (isCounted) return
    isCounted = true
    timed()
    metrics.execs.inc({ outcome })
  }
}

/** A longer timeout than the operator allows is refused, not shortened. */
function blockingTimeout({ config }: SessionContext, { timeout_ms }: ExecRequest): number {
  const max = config.defaults.max_exec_timeout_ms
  if (timeout_ms === undefined) return Math.min(LIMITS.exec_timeout_ms.default, max)
  if (timeout_ms > max) throw new SandglassError('TIMEOUT_TOO_LONG', { timeout_ms, max_ms: max })
  return timeout_ms
}

/** The fields of a command that both calls send. The key identifies it for a cancel. */
export function execFields({ cmd, shell = DEFAULT_SHELL, user, cwd, env, stdin_path }: ExecRequest) {
  return { cmd, shell, user, cwd, env, stdin_path, key: randomUUID() }
}

/** Calls back when the client leaves, at once if it has left already. */
export function whenGone(gone: AbortSignal, callback: () => void): Disposable {
  if (gone.aborted) callback()
  else gone.addEventListener('abort', callback)
  return { [Symbol.dispose]: () => gone.removeEventListener('abort', callback) }
}

/** Ends a command whose client has left. Clients also lose their connections when the daemon stops; those commands go on. */
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
    .catch(err => context.log.debug({ err, sessionId: live.record.id }, 'command could not be cancelled'))
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
    throw new SandglassError('RUNNER_LOST', { id: live.record.id }, { cause: new Error('the result of a command lacks a field') })
  }
  const cwd = boundedCwd(message.cwd)
  const shell = shellName(message.shell, asked)
  if (shell === DEFAULT_SHELL) live.record.cwd = cwd
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

/** The shell that the runner chose for a command; the one asked for if the reply has no valid name. */
export const shellName = (chosen: unknown, asked: string): string =>
  typeof chosen === 'string' && SHELL_NAME.test(chosen) ? chosen : asked

/**
 * The working directory that a shell reports, at most as long as a path may be and cut between characters. SECURITY: a command can forge the
 * report, and the record and every list carry it.
 */
export function boundedCwd(cwd: string): string {
  const max = LIMITS.path_bytes.max
  if (Buffer.byteLength(cwd) <= max) return cwd
  const bytes = Buffer.from(cwd.slice(0, max))
  let end = Math.min(max, bytes.length)
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--
  return bytes.toString('utf8', 0, end)
}
