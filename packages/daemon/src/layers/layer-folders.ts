// Unpacked layers: one folder each, named by the digest of its tar. `launcher unpack` unpacks into a temporary name; a folder gets its name
// when it is complete.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/contract/tables'
import { parseUnpackResult } from './unpack-result.ts'

export interface UnpackLimits {
  readonly maxBytes: number
  readonly maxEntries: number
  /** Bytes that stay free on the disk. */
  readonly reserveBytes: number
}

export interface Unpacked {
  readonly entries: number
  readonly bytes: number
}

const DIFF_ID = /^sha256:([0-9a-f]{64})$/
const FOLDER = /^[0-9a-f]{64}$/
/** Error codes of a pipe whose reader has ended: during a write, or between two. */
const READER_ENDED = ['EPIPE', 'ERR_STREAM_PREMATURE_CLOSE']

export class LayerFolders {
  readonly #dir: string
  readonly #launcherPath: string
  readonly #userXattrs: boolean

  /** `userXattrs`: an ordinary user mounts the overlay of the folders. */
  constructor(dir: string, launcherPath: string, userXattrs: boolean) {
    this.#dir = dir
    this.#launcherPath = launcherPath
    this.#userXattrs = userXattrs
  }

  folder(diffId: string): string {
    const hex = DIFF_ID.exec(diffId)?.[1]
    // SECURITY: it becomes a path.
    if (hex === undefined) throw new SandglassError('INTERNAL', { message: `not a digest: ${JSON.stringify(diffId)}` })
    return join(this.#dir, hex)
  }

  has(diffId: string): boolean {
    return existsSync(this.folder(diffId))
  }

  /** The tar stream must fail if its digest is not the diff id. After a failure or an abort nothing is left. */
  async unpack(image: string, diffId: string, tar: Readable, limits: UnpackLimits, signal: AbortSignal): Promise<Unpacked> {
    const folder = this.folder(diffId)
    const building = `${folder}.${randomBytes(6).toString('hex')}.new`
    await mkdir(this.#dir, { recursive: true, mode: 0o700 })
    await mkdir(building, { mode: 0o755 })
    try {
      const unpacked = await this.#run(image, building, tar, limits, signal)
      await publish(building, folder)
      return unpacked
    } catch (error) {
      await rm(building, { recursive: true, force: true })
      throw error
    }
  }

  async #run(image: string, folder: string, tar: Readable, limits: UnpackLimits, signal: AbortSignal): Promise<Unpacked> {
    const args = ['unpack', '--folder', folder, '--max-bytes', String(limits.maxBytes)]
    args.push('--max-entries', String(limits.maxEntries), '--reserve-bytes', String(limits.reserveBytes))
    if (this.#userXattrs) args.push('--user-xattrs')
    const child = spawn(this.#launcherPath, args, { stdio: ['pipe', 'pipe', 'pipe'], env: {} })
    const output = collected(child.stdout)
    const complaint = collected(child.stderr)
    const ended = new Promise<void>((resolve, reject) => child.once('error', reject).once('close', () => resolve()))
    ended.catch(() => undefined) // handled below, after the tar stream is closed
    try {
      await pipeline(tar, child.stdin, { signal })
    } catch (error) {
      // After a refusal the launcher reads no more of the tar. Its result tells why.
      const isRefused = READER_ENDED.includes((error as NodeJS.ErrnoException).code ?? '')
      if (!isRefused) child.kill('SIGKILL')
      await ended
      signal.throwIfAborted()
      // SECURITY: the tar may have been cut off. Only an explicit refusal takes precedence over that error.
      if (!isRefused || parseUnpackResult(output())?.ok !== false) throw error
    }
    // It ends after it has synced the disk, which SIGKILL does not interrupt.
    await orAborted(ended, signal, () => child.kill('SIGKILL'))
    return outcome(image, output(), complaint(), limits)
  }

  /** Removes every folder but those of these diff ids. */
  async prune(kept: ReadonlySet<string>): Promise<void> {
    for (const name of await names(this.#dir)) {
      if (!FOLDER.test(name) || kept.has(`sha256:${name}`)) continue
      // Renamed first: an incomplete layer must not have the name of a complete one.
      const gone = join(this.#dir, `${name}.${randomBytes(6).toString('hex')}.gone`)
      await rename(join(this.#dir, name), gone)
      await rm(gone, { recursive: true, force: true })
    }
  }

  /** Removes what the last daemon was unpacking or removing when it died. Folders that are made after the call are not affected. */
  async sweep(): Promise<void> {
    const left = existsSync(this.#dir) ? readdirSync(this.#dir).filter(name => !FOLDER.test(name)) : []
    for (const name of left) await rm(join(this.#dir, name), { recursive: true, force: true })
  }
}

async function orAborted(work: Promise<void>, signal: AbortSignal, abandon: () => void): Promise<void> {
  const aborted = Promise.withResolvers<never>()
  const onAbort = () => {
    abandon()
    aborted.reject(signal.reason)
  }
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort)
  try {
    await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

async function names(dir: string): Promise<string[]> {
  return await readdir(dir).catch(error => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  })
}

/** Another pull may have unpacked the same layer meanwhile. One of the two folders is enough. */
async function publish(building: string, folder: string): Promise<void> {
  try {
    await rename(building, folder)
  } catch (error) {
    if (!existsSync(folder)) throw error
    await rm(building, { recursive: true, force: true })
  }
}

function outcome(image: string, output: string, complaint: string, limits: UnpackLimits): Unpacked {
  const result = parseUnpackResult(output)
  if (result?.ok) return result
  const issue =
    result === null ? complaint.trim() || 'the launcher gave no result' : [result.entry, result.issue].filter(Boolean).join(': ')
  switch (result?.code) {
    case 'invalid':
      throw new SandglassError('IMAGE_INVALID', { image, issue })
    case 'too_many_entries':
      throw new SandglassError('IMAGE_TOO_LARGE', { image, what: 'entries', max: limits.maxEntries })
    case 'too_many_bytes':
      throw new SandglassError('IMAGE_TOO_LARGE', { image, what: 'bytes', max: limits.maxBytes })
    case 'full':
      throw new SandglassError('IMAGE_STORE_FULL', { image, why: 'the disk of the data folder is full' })
    default:
      throw new SandglassError('INTERNAL', { message: `a layer of ${image} could not be unpacked: ${issue}` })
  }
}

function collected(stream: Readable): () => string {
  let text = ''
  stream.setEncoding('utf8').on('data', piece => {
    if (text.length < 64 * 1024) text += piece
  })
  return () => text
}
