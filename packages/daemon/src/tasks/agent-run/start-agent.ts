// Starts the program of an agent, finds one that an earlier daemon has started, and ends one.
import { SandglassError, WORKSPACE } from '@sandglass/contract'
import { z } from 'zod'
import type { AgentCommand } from '../../agents/adapters/adapter.ts'
import type { SessionContext } from '../../sessions/context.ts'
import { startProcess } from '../../sessions/inside/processes.ts'
import { request } from '../../sessions/inside/request.ts'
import { parsed, RunnerProcess } from '../../sessions/inside/runner-shapes.ts'
import { writeInSession } from './in-session.ts'

/** How long an agent has to end after SIGTERM. */
const GRACE_MS = 5000

/** The tag says which try of which task a process is: programs in the sandbox cannot set one. */
export const tagOf = (taskId: string, tryNumber: number): string => `${taskId}.${tryNumber}`

/** Writes the agent's configuration, starts it and gives it the prompt. The runner ends it at its timeout, also while no daemon runs. */
export async function startAgent(
  context: SessionContext,
  sessionId: string,
  { argv, env, files }: AgentCommand,
  { tag, prompt, taskEnv, timeoutMs }: { tag: string; prompt: string; taskEnv: Record<string, string>; timeoutMs: number },
): Promise<number> {
  for (const file of files) await writeInSession(context, sessionId, file)
  const { pid } = await startProcess(context, sessionId, {
    argv: [...argv],
    // What the caller sets is for the tools of the agent: it cannot change what the adapter needs.
    env: { ...taskEnv, ...env },
    cwd: WORKSPACE,
    tag,
    timeout_ms: timeoutMs,
    stdin: true,
    detach: true,
    keep_output: true,
  })
  // An agent that ends before it has read its prompt says why on its output.
  await request(context, sessionId, 'process.stdin', { pid, close: true }, Buffer.from(prompt)).catch(ignoreEnded)
  return pid
}

/**
 * The process with the tag that has its prompt, or null; and those without one, because a daemon died before it gave it to them. They wait for
 * ever and have to be ended, but only after the next one has started: otherwise a further crash would find an agent that was killed.
 */
export async function findAgent(
  context: SessionContext,
  sessionId: string,
  tag: string,
): Promise<{ pid: number | null; unprompted: number[] }> {
  const { message } = await request(context, sessionId, 'process.list')
  const oldestFirst = parsed(sessionId, z.array(RunnerProcess), message.processes).filter(process => process.tag === tag)
  const unprompted = oldestFirst.filter(({ running, stdin_open }) => running && stdin_open).map(({ pid }) => pid)
  const last = oldestFirst.at(-1)?.pid ?? null
  return { pid: last !== null && unprompted.includes(last) ? null : last, unprompted }
}

export const killAgent = (context: SessionContext, sessionId: string, pid: number): Promise<unknown> =>
  signal(context, sessionId, pid, 'KILL')

/** Asks the agent to end, and kills it if it does not. Returns a function that cancels the kill. */
export async function stopAgent(context: SessionContext, sessionId: string, pid: number): Promise<() => void> {
  await signal(context, sessionId, pid, 'TERM')
  const timer = setTimeout(() => {
    signal(context, sessionId, pid, 'KILL').catch(err => context.log.warn({ err, sessionId, pid }, 'agent could not be killed'))
  }, GRACE_MS)
  return () => clearTimeout(timer)
}

const signal = (context: SessionContext, sessionId: string, pid: number, name: string): Promise<unknown> =>
  request(context, sessionId, 'process.signal', { pid, signal: name, group: true }).catch(ignoreEnded)

function ignoreEnded(error: unknown): void {
  const isEnded = error instanceof SandglassError && ['PROCESS_NOT_FOUND', 'STDIN_CLOSED', 'INVALID_REQUEST'].includes(error.code)
  if (!isEnded) throw error
}
