// Uploads: files and git bundles that tasks put into their sessions. They are kept for a day.
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { LIMITS, newId, type RouteReply, SandglassError } from '@sandglass/contract'
import { namesIn, nullIfMissing } from '../lib/missing-file.ts'
import { type TaskContext, uploadFolder } from './context.ts'

const KEPT_MS = LIMITS.upload_seconds.max * 1000

export async function createUpload(tasks: TaskContext, body: Readable): Promise<RouteReply<'createUpload'>> {
  const id = newId('upl_')
  const path = join(uploadFolder(tasks), id)
  const hash = createHash('sha256')
  let bytes = 0
  await mkdir(uploadFolder(tasks), { recursive: true, mode: 0o700 })
  try {
    await pipeline(body, counted, createWriteStream(path, { mode: 0o600 }))
  } catch (error) {
    await rm(path, { force: true })
    throw error
  }
  return { id, bytes, sha256: hash.digest('hex'), expires_at: new Date(tasks.sessions.now() + KEPT_MS).toISOString() }

  async function* counted(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, undefined> {
    for await (const chunk of source) {
      bytes += chunk.length
      if (bytes > LIMITS.upload_bytes.max) throw new SandglassError('BODY_TOO_LARGE', { limit: LIMITS.upload_bytes.max })
      hash.update(chunk)
      yield chunk
    }
  }
}

export async function getUpload(tasks: TaskContext, id: string): Promise<{ path: string; bytes: number }> {
  const path = join(uploadFolder(tasks), id)
  const found = await stat(path).catch(nullIfMissing)
  if (found === null) throw new SandglassError('UPLOAD_NOT_FOUND', { id })
  return { path, bytes: found.size }
}

export async function removeOldUploads(tasks: TaskContext): Promise<void> {
  for (const name of await namesIn(uploadFolder(tasks))) {
    const path = join(uploadFolder(tasks), name)
    const found = await stat(path).catch(nullIfMissing)
    if (found !== null && found.mtimeMs + KEPT_MS < tasks.sessions.now()) await rm(path, { force: true })
  }
}
