// Named shells of a session.
import type { RouteBody, RouteReply } from '@sandglass/contract'
import { z } from 'zod'
import type { SessionContext } from '../context.ts'
import { ask, askStream, type HeldStream } from './ask.ts'
import { parsed, RunnerShell } from './runner-shapes.ts'

export async function createShell(
  context: SessionContext,
  ref: string,
  { size, ...spec }: RouteBody<'createShell'>,
): Promise<RouteReply<'createShell'>> {
  const { message, live } = await ask(context, ref, 'shell.create', { ...spec, ...size })
  return parsed(live.row.id, RunnerShell, message.shell)
}

export async function listShells(context: SessionContext, ref: string): Promise<RouteReply<'listShells'>> {
  const { message, live } = await ask(context, ref, 'shell.list')
  return { items: parsed(live.row.id, z.array(RunnerShell), message.shells) }
}

export async function deleteShell(context: SessionContext, ref: string, name: string): Promise<{ ok: true }> {
  await ask(context, ref, 'shell.remove', { name })
  return { ok: true }
}

export async function interruptShell(context: SessionContext, ref: string, name: string): Promise<RouteReply<'interruptShell'>> {
  const { message } = await ask(context, ref, 'shell.interrupt', { name })
  return { interrupted: message.interrupted === true }
}

export const attachShell = (
  context: SessionContext,
  ref: string,
  name: string,
  size: { cols?: number; rows?: number },
  signal: AbortSignal,
): Promise<HeldStream> => askStream(context, ref, 'shell.attach', { name, ...size }, signal)
