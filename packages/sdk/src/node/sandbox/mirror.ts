// Copies what the daemon keeps of a context into the folders of the caller: context.json, `<agent>/` and network-sandbox.log.
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type AgentName, SandglassError } from '@sandglass/contract/tables'
import type { SandboxClient } from '../../client.ts'
import type { NetworkLog } from './network-log.ts'
import { unpack } from './tar/unpack.ts'

export type MirrorFolders = {
  /** Gets context.json and the state folder of the agent. */
  sessionDir?: string
  /** Gets network-sandbox.log. */
  networkLogDir?: string
}

export async function mirror(
  client: SandboxClient,
  context: string,
  agent: AgentName,
  { sessionDir, networkLogDir, networkLog }: MirrorFolders & { networkLog: NetworkLog },
): Promise<void> {
  if (sessionDir !== undefined) {
    await mkdir(sessionDir, { recursive: true, mode: 0o700 })
    const text = await ifKept(client.contexts.fileText(context))
    if (text !== undefined) await replaceFile(join(sessionDir, 'context.json'), text)
    const state = await ifKept(client.contexts.state(context, agent))
    if (state) await replaceFolder(sessionDir, agent, state)
  }
  if (networkLogDir !== undefined) {
    await mkdir(networkLogDir, { recursive: true, mode: 0o700 })
    await replaceFile(join(networkLogDir, 'network-sandbox.log'), await networkLog.text())
  }
}

/** Undefined for a context that was removed meanwhile. */
async function ifKept<T>(asked: Promise<T>): Promise<T | undefined> {
  return asked.catch(error => {
    if (error instanceof SandglassError && error.is('CONTEXT_NOT_FOUND')) return undefined
    throw error
  })
}

/** A reader sees the old file or the new one. */
async function replaceFile(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString('hex')}`
  try {
    const file = await open(temporary, 'wx', 0o600)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}

/** Unpacks beside the old folder, which is kept if that fails. */
async function replaceFolder(parent: string, name: string, tar: AsyncIterable<Uint8Array>): Promise<void> {
  const work = await mkdtemp(join(parent, `.${name}-`))
  try {
    await mkdir(join(work, 'new'), { mode: 0o700 })
    await unpack(tar, join(work, 'new'))
    await rename(join(parent, name), join(work, 'old')).catch(absent)
    await rename(join(work, 'new'), join(parent, name))
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

function absent(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}
