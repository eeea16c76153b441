// Processes of a session, programs with their own stdin, stdout and stderr, and the TCP ports that are open inside.
import { type LimitHit, type RouteBody, type RouteReply, SandglassError } from '@sandglass/contract'
import { z } from 'zod'
import type { SessionContext } from '../context.ts'
import { limitReading, processLimitHit, rememberProcess } from '../limits/limit-hits.ts'
import { runningSession } from '../live.ts'
import { PagedReply, pagesOf } from '../pages.ts'
import { queryStream, request, requestStream, type SessionStream } from './request.ts'
import { parsed, RunnerAcknowledged, RunnerPort, RunnerProcess, RunnerTableRow } from './runner-shapes.ts'

/** With `keep_output`, which the API does not have, the runner keeps all output until `acknowledgeOutput` says that it is stored. */
export async function startProcess(
  context: SessionContext,
  ref: string,
  spec: RouteBody<'startProcess'> & { keep_output?: boolean },
): Promise<RouteReply<'startProcess'>> {
  const { seen } = (await runningSession(context, ref, 'reach')).limits
  const { message, live } = await request(context, ref, 'process.start', spec)
  const process = parsed(live.record.id, RunnerProcess, message.process)
  rememberProcess(live, process.pid, seen)
  return { ...process, limit_hit: null }
}

export async function listProcesses(context: SessionContext, ref: string): Promise<RouteReply<'listProcesses'>> {
  const { message, live } = await request(context, ref, 'process.list')
  const reading = limitReading(context, live)
  const items = parsed(live.record.id, z.array(RunnerProcess), message.processes).map(async process => ({
    ...process,
    limit_hit: await processLimitHit(context, live, process.pid, process.exit_code, reading),
  }))
  return { items: await Promise.all(items) }
}

export async function processTable(
  context: SessionContext,
  ref: string,
  signal: AbortSignal,
): Promise<PagedReply<RouteReply<'processTable'>>> {
  const opened = await queryStream(context, ref, 'process.table', signal)
  return new PagedReply<RouteReply<'processTable'>>({}, pagesOf(opened, RunnerTableRow))
}

export async function getProcess(context: SessionContext, ref: string, pid: number): Promise<RouteReply<'getProcess'>> {
  const { message, live } = await request(context, ref, 'process.get', { pid })
  const process = parsed(live.record.id, RunnerProcess, message.process)
  return { ...process, limit_hit: await processLimitHit(context, live, pid, process.exit_code) }
}

export async function signalProcess(
  context: SessionContext,
  ref: string,
  pid: number,
  { signal, group }: RouteBody<'signalProcess'>,
): Promise<{ ok: true }> {
  await request(context, ref, 'process.signal', { pid, signal, ...(group === undefined ? {} : { group }) })
  return { ok: true }
}

export async function writeStdin(
  context: SessionContext,
  ref: string,
  pid: number,
  input: RouteBody<'writeStdin'>,
): Promise<{ ok: true }> {
  if (input.text !== undefined && input.content_base64 !== undefined)
    throw new SandglassError('INVALID_REQUEST', { issue: 'only one of text and content_base64 may be given' })
  const data = input.content_base64 === undefined ? Buffer.from(input.text ?? '') : Buffer.from(input.content_base64, 'base64')
  await request(context, ref, 'process.stdin', { pid, close: input.close ?? false }, data)
  return { ok: true }
}

/** `from` are the positions at which a reader that comes back goes on. */
export const attachProcess = (
  context: SessionContext,
  ref: string,
  pid: number,
  from: { stdout_from?: number; stderr_from?: number; follow?: boolean },
  signal: AbortSignal,
): Promise<SessionStream> => requestStream(context, ref, 'process.attach', { pid, ...from }, signal)

/** Positions before which the output of a process with `keep_output` is acknowledged. Throws RUNNER_LOST for a process without it. */
export const acknowledgedOutput = ({ stream, live }: SessionStream): { stdout: number; stderr: number } =>
  parsed(live.record.id, RunnerAcknowledged, stream.reply)

/** Tells the runner that the output before these positions is stored. */
export const acknowledgeOutput = ({ stream }: SessionStream, stored: { stdout?: number; stderr?: number }): Promise<void> =>
  stream.send({ ...stored, type: 'ack' })

const Output = z.object({ type: z.enum(['stdout', 'stderr']), offset: z.int().min(0) })
const Exit = z.object({ type: z.literal('exit'), exit_code: z.int(), timed_out: z.boolean().default(false) })

export type OutputEvent =
  | { id: string; event: 'stdout' | 'stderr'; data: { data_base64: string } }
  | { id: string; event: 'exit'; data: { exit_code: number; timed_out: boolean; limit_hit: LimitHit | null } }
  | { id: string; event: 'kept'; data: Record<string, never> }

/** Output as events. The id of each is the two positions after it, so that a reader can come back with the last one it has seen. */
export async function* processOutput(
  context: SessionContext,
  opened: SessionStream,
  pid: number,
  position: { stdout: number; stderr: number },
): AsyncGenerator<OutputEvent, void, undefined> {
  const { stream, live } = opened
  const id = () => `${position.stdout}-${position.stderr}`
  try {
    for await (const { message, body } of stream) {
      if (message.type === 'exit') {
        const { exit_code, timed_out } = parsed(live.record.id, Exit, message)
        const limit_hit = await processLimitHit(context, live, pid, exit_code)
        yield { id: id(), event: 'exit', data: { exit_code, timed_out, limit_hit } }
        return
      }
      if (message.type === 'kept') {
        yield { id: id(), event: 'kept', data: {} }
        return
      }
      const { type, offset } = parsed(live.record.id, Output, message)
      position[type] = offset
      for await (const bytes of body) {
        position[type] += bytes.length
        yield { id: id(), event: type, data: { data_base64: bytes.toString('base64') } }
      }
    }
    throw new SandglassError('RUNNER_LOST', { id: live.record.id })
  } finally {
    opened.close()
  }
}

export function parsePosition(lastEventId: string | undefined): { stdout: number; stderr: number } {
  const [, stdout, stderr] = /^(\d{1,15})-(\d{1,15})$/.exec(lastEventId ?? '0-0') ?? []
  if (stdout === undefined || stderr === undefined)
    throw new SandglassError('INVALID_REQUEST', { issue: 'Last-Event-ID: is not one that this stream gave' })
  return { stdout: Number(stdout), stderr: Number(stderr) }
}

export async function listPorts(context: SessionContext, ref: string): Promise<RouteReply<'listPorts'>> {
  const { message, live } = await request(context, ref, 'ports')
  return { items: parsed(live.record.id, z.array(RunnerPort), message.ports) }
}

/** A connection to a TCP port inside. */
export const dialPort = (context: SessionContext, ref: string, port: number, signal: AbortSignal): Promise<SessionStream> =>
  requestStream(context, ref, 'dial', { port }, signal)
