// POST …/exec/stream: the same command, its output as it comes.
import { type ExecChunk, type ExecDone, type ExecRequest, SandglassError } from '@sandglass/contract'
import type { z } from 'zod'
import type { RunnerStream } from '../runner-link/stream.ts'
import type { Message } from '../runner-link/wire.ts'
import { OutputCleaner } from './clean-output.ts'
import { execDone, execFields } from './exec.ts'
import { holdForExec } from './exec-hold.ts'
import { limitHit } from './limit-hits.ts'
import { type LiveSession, runningSession } from './live.ts'
import type { World } from './world.ts'

export type ExecEvent = { event: 'chunk'; data: z.infer<typeof ExecChunk> } | { event: 'done'; data: z.infer<typeof ExecDone> }

/**
 * Refusals that can be known before the command runs are thrown at once, so that they are plain replies. If the reader goes away
 * the command runs on, like one whose terminal was closed, and holds the lease until it ends.
 */
export async function execStream(
  world: World,
  ref: string,
  request: ExecRequest,
): Promise<AsyncGenerator<ExecEvent, void, undefined>> {
  const fields = execFields(world, request)
  const live = await runningSession(world, ref, 'exec in')
  return events(world, live, request.raw_output === true, fields)
}

async function* events(
  world: World,
  live: LiveSession,
  isRaw: boolean,
  fields: ReturnType<typeof execFields>,
): AsyncGenerator<ExecEvent, void, undefined> {
  const cleaner = new OutputCleaner(isRaw)
  const release = holdForExec(world, live, fields)
  const { seen } = live.limits
  let stream: RunnerStream | undefined
  let isOver = false
  try {
    stream = await live.link.stream('exec', { ...fields, stream: true }, { signal: world.closing })
    // The first message back may already be output: a command has no other reply.
    for (let message: Message | null = stream.reply; message !== null; message = await stream.next()) {
      if (message.type === 'exec_chunk') {
        for await (const bytes of stream.replyBody()) yield* chunk(world, cleaner.push(bytes))
      } else if (message.type === 'exec_done') {
        isOver = true
        yield* chunk(world, cleaner.end())
        const done = execDone(live, fields.shell, message)
        world.metrics.execs.inc({ outcome: done.timed_out ? 'timed_out' : 'ended' })
        yield { event: 'done', data: { ...done, limit_hit: await limitHit(world, live, done.exit_code, seen) } }
        return
      }
    }
    throw new SandglassError('RUNNER_LOST', { id: live.row.id })
  } catch (error) {
    isOver = true
    throw error
  } finally {
    if (stream && !isOver) runOn(world, live, fields.shell, stream, release)
    else {
      stream?.close()
      release()
    }
  }
}

/** Nobody reads any more: output is dropped, and the end still counts. */
function runOn(world: World, live: LiveSession, shell: string, stream: RunnerStream, release: () => void): void {
  const drain = async () => {
    for await (const { message } of stream) if (message.type === 'exec_done') execDone(live, shell, message)
  }
  drain()
    .catch(err => world.log.debug({ err, sessionId: live.row.id }, 'a command without a reader was lost'))
    .finally(() => {
      stream.close()
      release()
    })
}

function* chunk(world: World, text: string): Generator<ExecEvent> {
  if (text !== '') yield { event: 'chunk', data: { chunk: text, timestamp: new Date(world.now()).toISOString() } }
}
