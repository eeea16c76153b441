// The state folder of an agent, in which it keeps its conversations. It lives on the disk of the context's session; after each task a copy goes
// to the context's folder, and comes back when the session has to be created again.
// SECURITY: the copy is a tar that a sandbox wrote. The daemon stores it and sends it back, and never unpacks it.
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AGENT_FACTS, AGENTS, type AgentName, SANDBOX_HOME, SandglassError } from '@sandglass/contract'
import { nullIfMissing } from '../../lib/missing-file.ts'
import { getArchive, putArchive } from '../../sessions/inside/transfer.ts'
import { contextFolder, type TaskContext } from '../context.ts'

const MAX_BYTES = 512 * 1024 * 1024

export const statePath = (tasks: TaskContext, folder: string, agent: AgentName): string =>
  join(contextFolder(tasks, folder), `${agent}.tar`)

const folderInside = (agent: AgentName): string => join(SANDBOX_HOME, AGENT_FACTS[agent].stateFolder)

/** Copies the state out of a running session. */
export async function saveState(
  tasks: TaskContext,
  { folder, agent, sessionId }: { folder: string; agent: AgentName; sessionId: string },
  signal: AbortSignal,
): Promise<void> {
  const path = statePath(tasks, folder, agent)
  await mkdir(contextFolder(tasks, folder), { recursive: true, mode: 0o700 })
  const query = { path: folderInside(agent), on_unreadable: 'skip' as const }
  const archive = await getArchive(tasks.sessions, sessionId, query, signal).catch(nullIfNoState)
  if (archive === null) return
  const { chunks, close } = archive
  try {
    await pipeline(Readable.from(bounded(chunks)), createWriteStream(`${path}.new`, { mode: 0o600 }))
    await rename(`${path}.new`, path)
  } catch (error) {
    await rm(`${path}.new`, { force: true })
    throw error
  } finally {
    close()
  }
}

/** An agent that ended at once has written nothing. */
function nullIfNoState(error: unknown): null {
  if (error instanceof SandglassError && error.is('FILE_NOT_FOUND')) return null
  throw error
}

async function* bounded(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, undefined> {
  let bytes = 0
  for await (const chunk of chunks) {
    bytes += chunk.length
    if (bytes > MAX_BYTES) throw new Error(`the state of the agent is larger than ${MAX_BYTES} bytes`)
    yield Buffer.from(chunk)
  }
}

/** Puts the states that the context has into a new session. */
export async function restoreStates(tasks: TaskContext, folder: string, sessionId: string, signal: AbortSignal): Promise<void> {
  for (const agent of AGENTS) {
    const path = statePath(tasks, folder, agent)
    const size = await sizeOf(path)
    if (size === null) continue
    const upload = { chunks: createReadStream(path), length: size }
    await putArchive(tasks.sessions, sessionId, { path: folderInside(agent) }, upload, signal)
  }
}

/** Null if there is no such file. */
export async function sizeOf(path: string): Promise<number | null> {
  return (await stat(path).catch(nullIfMissing))?.size ?? null
}
