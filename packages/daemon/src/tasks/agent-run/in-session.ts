// Small programs and files in the session of a task, beside its agent.
import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { z } from 'zod'
import type { SessionContext } from '../../sessions/context.ts'
import { request, requestStream } from '../../sessions/inside/request.ts'
import { parsed, RunnerProcess } from '../../sessions/inside/runner-shapes.ts'
import { getFile, putFile } from '../../sessions/inside/transfer.ts'

const Exit = z.object({ type: z.literal('exit'), exit_code: z.int() })
const Output = z.object({ type: z.enum(['stdout', 'stderr']) })
const KEPT_BYTES = 64 * 1024

export type ScriptResult = { exitCode: number; stdout: string; stderr: string }

/** Runs a program to its end, or kills it when the signal aborts. The beginning of its output is kept. */
export async function runInSession(
  context: SessionContext,
  sessionId: string,
  spec: { argv: readonly string[]; env?: Record<string, string>; cwd?: string; timeoutMs: number },
  signal: AbortSignal,
): Promise<ScriptResult> {
  const { message } = await request(context, sessionId, 'process.start', {
    argv: [...spec.argv],
    ...(spec.env && { env: spec.env }),
    ...(spec.cwd !== undefined && { cwd: spec.cwd }),
    timeout_ms: spec.timeoutMs,
    hold_output: true,
  })
  const { pid } = parsed(sessionId, RunnerProcess, message.process)
  const { stream, close } = await requestStream(context, sessionId, 'process.attach', { pid }, signal)
  const kept = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  const bytes = { stdout: 0, stderr: 0 }
  try {
    for await (const { message: next, body } of stream) {
      if (next.type === 'exit') {
        const text = (name: 'stdout' | 'stderr') => Buffer.concat(kept[name]).toString('utf8')
        return { exitCode: parsed(sessionId, Exit, next).exit_code, stdout: text('stdout'), stderr: text('stderr') }
      }
      const { type } = parsed(sessionId, Output, next)
      for await (const chunk of body) {
        const room = KEPT_BYTES - bytes[type]
        if (room <= 0) continue
        kept[type].push(Buffer.from(chunk.subarray(0, room)))
        bytes[type] += Math.min(room, chunk.length)
      }
    }
    throw new Error('the program was lost before its end')
  } finally {
    close()
    // The program may have ended, or its session; the caller gets the reason of the abort.
    if (signal.aborted && !context.closing.aborted)
      await request(context, sessionId, 'process.signal', { pid, signal: 'KILL', group: true }).catch(() => undefined)
  }
}

export async function writeInSession(
  context: SessionContext,
  sessionId: string,
  { path, text, mode }: { path: string; text: string; mode?: string | undefined },
): Promise<void> {
  await request(context, sessionId, 'write', { path, make_parents: true, ...(mode && { mode }) }, Buffer.from(text))
}

export async function uploadToSession(
  context: SessionContext,
  sessionId: string,
  { path, mode, chunks, bytes }: { path: string; mode?: string | undefined; chunks: Readable; bytes: number },
  signal: AbortSignal,
): Promise<void> {
  await putFile(context, sessionId, { path, ...(mode && { mode }) }, { chunks, length: bytes }, signal)
}

/** Copies a file of the session to the host. Throws if it is larger than `maxBytes`. SECURITY: its content is hostile; nothing here reads it. */
export async function downloadFromSession(
  context: SessionContext,
  sessionId: string,
  { path, to, maxBytes }: { path: string; to: string; maxBytes: number },
  signal: AbortSignal,
): Promise<void> {
  const { chunks, length, close } = await getFile(context, sessionId, { path }, { offset: 0 }, signal)
  try {
    if (length > maxBytes) throw new Error(`${path} has ${length} bytes, and at most ${maxBytes} are kept`)
    await pipeline(Readable.from(chunks), createWriteStream(to, { mode: 0o600 }))
  } finally {
    close()
  }
}
