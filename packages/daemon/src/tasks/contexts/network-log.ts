// The network log of a context. Each session has its own, which goes with the session; so after each task a copy is kept with the context.
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { namesIn } from '../../lib/missing-file.ts'
import { networkText } from '../../network-log/network-log.ts'
import { contextFolder, type TaskContext } from '../context.ts'

const FOLDER = 'network'
const ENDING = '.log'

const logs = (tasks: TaskContext, folder: string) => join(contextFolder(tasks, folder), FOLDER)

export async function saveNetworkLog(tasks: TaskContext, folder: string, sessionId: string): Promise<void> {
  const path = join(logs(tasks, folder), `${sessionId}${ENDING}`)
  await mkdir(logs(tasks, folder), { recursive: true, mode: 0o700 })
  await pipeline(Readable.from(await networkText(tasks.sessions, sessionId)), createWriteStream(`${path}.new`, { mode: 0o600 }))
  await rename(`${path}.new`, path)
}

/** The logs of all sessions that the context has had, oldest first. */
export async function* contextNetworkLog(tasks: TaskContext, folder: string): AsyncGenerator<Buffer, void, undefined> {
  const names = (await namesIn(logs(tasks, folder))).filter(name => name.endsWith(ENDING))
  const dated = await Promise.all(names.map(async name => ({ name, at: (await stat(join(logs(tasks, folder), name))).mtimeMs })))
  for (const { name } of dated.toSorted((a, b) => a.at - b.at)) yield* createReadStream(join(logs(tasks, folder), name))
}
