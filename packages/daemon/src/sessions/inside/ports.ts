// TCP ports inside a session: which are open, and a connection to one.
import type { RouteReply } from '@sandglass/contract'
import { z } from 'zod'
import type { SessionContext } from '../context.ts'
import { ask, askStream, type HeldStream } from './ask.ts'
import { parsed, RunnerPort } from './runner-shapes.ts'

export async function listPorts(context: SessionContext, ref: string): Promise<RouteReply<'listPorts'>> {
  const { message, live } = await ask(context, ref, 'ports')
  return { items: parsed(live.row.id, z.array(RunnerPort), message.ports) }
}

export const dialPort = (context: SessionContext, ref: string, port: number, signal: AbortSignal): Promise<HeldStream> =>
  askStream(context, ref, 'dial', { port }, signal)
