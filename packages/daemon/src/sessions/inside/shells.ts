// Named shells of a session.
import type { RouteBody, RouteReply } from '@sandglass/contract'
import { z } from 'zod'
import type { SessionContext } from '../context.ts'
import { request, requestStream, type SessionStream } from './request.ts'
import { parsed, RunnerShell } from './runner-shapes.ts'

export async function createShell(
  context: SessionContext,
  ref: string,
  { size, ...spec }: RouteBody<'createShell'>,
): Promise<RouteReply<'createShell'>> {
  const { message, live } = await request(context, ref, 'shell.create', { ...spec, ...size })
  return parsed(live.record.id, RunnerShell, message.shell)
}

export async function listShells(context: SessionContext, ref: string): Promise<RouteReply<'listShells'>> {
  const { message, live } = await request(context, ref, 'shell.list')
  return { items: parsed(live.record.id, z.array(RunnerShell), message.shells) }
}

export async function deleteShell(context: SessionContext, ref: string, name: string): Promise<{ ok: true }> {
  await request(context, ref, 'shell.remove', { name })
  return { ok: true }
}

export async function interruptShell(context: SessionContext, ref: string, name: string): Promise<RouteReply<'interruptShell'>> {
  const { message } = await request(context, ref, 'shell.interrupt', { name })
  return { interrupted: message.interrupted === true }
}

export const attachShell = (
  context: SessionContext,
  ref: string,
  name: string,
  size: { cols?: number; rows?: number },
  signal: AbortSignal,
): Promise<SessionStream> => requestStream(context, ref, 'shell.attach', { name, ...size }, signal)
