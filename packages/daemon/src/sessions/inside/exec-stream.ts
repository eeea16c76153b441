// POST …/exec/stream: the same command as exec.ts, with its output as it comes.
import { type ExecChunk, type ExecDone, type ExecRequest, type ExecWait, SandglassError } from '@sandglass/contract'
import type { RunnerStream } from '@sandglass/runner-link/stream'
import type { Message } from '@sandglass/runner-link/wire'
import type { z } from 'zod'
import type { SessionContext } from '../context.ts'
import { type ExecHold, holdForExec } from '../lease/exec-hold.ts'
import { limitHit } from '../limits/limit-hits.ts'
import { type LiveSession, runningSession } from '../live.ts'
import { OutputCleaner } from './clean-output.ts'
import { cancelExec, execDone, execFields, measureExec, shellName, whenGone } from './exec.ts'

export type ExecEvent =
  | { event: 'waiting' | 'started'; data: z.infer<typeof ExecWait> }
  | { event: 'chunk'; data: z.infer<typeof ExecChunk> }
  | { event: 'done'; data: z.infer<typeof ExecDone> }

/** A command that the runner has accepted. */
type Accepted = {
  live: LiveSession
  request: ExecRequest
  fields: ReturnType<typeof execFields>
  hold: ExecHold
  measured: ReturnType<typeof measureExec>
  stream: RunnerStream
}

const EVENTS = { exec_waiting: 'waiting', exec_started: 'started' } as const

/**
 * Refusals that are known before the command runs are thrown at once, so that they are plain replies. `gone` aborts when the client
 * leaves: its command is then cancelled, unless it asked for `detach`, and holds the lease until it ends.
 */
export async function execStream(
  context: SessionContext,
  ref: string,
  request: ExecRequest,
  gone: AbortSignal,
): Promise<AsyncGenerator<ExecEvent, void, undefined>> {
  const fields = execFields(request)
  const { timeout_ms } = request
  const live = await runningSession(context, ref, 'exec in')
  const hold = holdForExec(context, live, timeout_ms ?? null)
  const measured = measureExec(context)
  try {
    const stream = await live.link.stream('exec', { ...fields, timeout_ms, stream: true }, { signal: context.closing })
    return events(context, { live, request, fields, hold, measured, stream }, gone)
  } catch (error) {
    measured('error')
    hold.release()
    throw error
  }
}

async function* events(
  context: SessionContext,
  accepted: Accepted,
  gone: AbortSignal,
): AsyncGenerator<ExecEvent, void, undefined> {
  const { live, request, fields, hold, measured, stream } = accepted
  const cleaner = new OutputCleaner(request.raw_output === true)
  const timestamp = () => new Date(context.now()).toISOString()
  const chunk = (text: string): ExecEvent[] =>
    text === '' ? [] : [{ event: 'chunk', data: { chunk: text, timestamp: timestamp() } }]
  const shell = shellName(stream.reply.shell, fields.shell)
  const cancel = () => cancelExec(context, live, request, fields.key, hold)
  const { seen } = live.limits
  let isOver = false
  try {
    using _ = whenGone(gone, cancel)
    for (let message: Message | null = stream.reply; message !== null; message = await stream.next()) {
      if (message.type === 'exec_chunk') {
        for await (const bytes of stream.replyBody()) yield* chunk(cleaner.push(bytes))
      } else if (message.type === 'exec_waiting' || message.type === 'exec_started') {
        yield { event: EVENTS[message.type], data: { shell, timestamp: timestamp() } }
      } else if (message.type === 'exec_done') {
        isOver = true
        const done = doneOf(accepted, message)
        yield* chunk(cleaner.end())
        yield { event: 'done', data: { ...done, limit_hit: await limitHit(context, live, done.exit_code, seen) } }
        return
      }
    }
    throw new SandglassError('RUNNER_LOST', { id: live.record.id })
  } catch (error) {
    isOver = true
    measured('error')
    throw error
  } finally {
    if (isOver) {
      stream.close()
      hold.release()
    } else {
      cancel()
      drain(context, accepted)
    }
  }
}

/** Reads on after the client has left: output is dropped, and the end of the command still counts. */
function drain(context: SessionContext, accepted: Accepted): void {
  const { live, hold, measured, stream } = accepted
  const toEnd = async () => {
    for await (const { message } of stream) if (message.type === 'exec_done') doneOf(accepted, message)
  }
  toEnd()
    .catch(err => context.log.debug({ err, sessionId: live.record.id }, 'command without a client was lost'))
    .finally(() => {
      measured('error') // no effect on a command that ended
      stream.close()
      hold.release()
    })
}

function doneOf({ live, request, fields, measured }: Accepted, message: Message): ReturnType<typeof execDone> {
  const done = execDone(live, fields.shell, request.timeout_ms ?? null, message)
  measured(done.timed_out ? 'timed_out' : 'ended')
  return done
}
