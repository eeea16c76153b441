// Unpacked layers: a folder for each, under the digest of its tar. `runner unpack` does the unpacking; a folder has its name when it is whole.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/contract/tables'

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

interface Result extends Unpacked {
  readonly ok: boolean
  readonly code?: 'invalid' | 'too_large' | 'full' | 'failed'
  readonly entry?: string
  readonly issue?: string
}

const DIFF_ID = /^sha256:([0-9a-f]{64})$/
const FOLDER = /^[0-9a-f]{64}$/
/** How the end of whoever reads a pipe is seen: by a write, or between two. */
const TAKES_NO_MORE = ['EPIPE', 'ERR_STREAM_PREMATURE_CLOSE']

export class LayerFolders {
  readonly #dir: string
  readonly #runnerPath: string
  readonly #userXattrs: boolean

  /** `userXattrs`: the overlay that shows the folders is an ordinary user's. */
  constructor(dir: string, runnerPath: string, userXattrs: boolean) {
    this.#dir = dir
    this.#runnerPath = runnerPath
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

  /** The tar fails instead of ending when it is not what its diff id says. On failure or abort nothing is left. */
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
    const child = spawn(this.#runnerPath, args, { stdio: ['pipe', 'pipe', 'pipe'], env: {} })
    const said = collected(child.stdout)
    const complaint = collected(child.stderr)
    const ended = new Promise<void>((resolve, reject) => child.once('error', reject).once('close', () => resolve()))
    ended.catch(() => undefined) // told below, once the tar has been let go of
    try {
      await pipeline(tar, child.stdin, { signal })
    } catch (error) {
      // One that has refused the layer takes no more of it: what it said tells why.
      const isRefused = TAKES_NO_MORE.includes((error as NodeJS.ErrnoException).code ?? '')
      if (!isRefused) child.kill('SIGKILL')
      await ended
      signal.throwIfAborted()
      // SECURITY: the end of the tar may have been cut off. Only a refusal that was spoken counts for more than that.
      if (!isRefused || parsed(said())?.ok !== false) throw error
    }
    // At its end it waits for the disk, and dies when that is over.
    await orAborted(ended, signal, () => child.kill('SIGKILL'))
    return outcome(image, said(), complaint(), limits)
  }

  /** Removes every folder but those of these diff ids. */
  async prune(kept: ReadonlySet<string>): Promise<void> {
    for (const name of await names(this.#dir)) {
      if (!FOLDER.test(name) || kept.has(`sha256:${name}`)) continue
      // Out of the way first: half a layer must not be taken for a whole one.
      const gone = join(this.#dir, `${name}.${randomBytes(6).toString('hex')}.gone`)
      await rename(join(this.#dir, name), gone)
      await rm(gone, { recursive: true, force: true })
    }
  }

  /** For the start of a daemon: what the last one was unpacking or removing when it died. What is begun after the call is safe from it. */
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

/** Another pull may have unpacked the same layer meanwhile; one of the two is enough. */
async function publish(building: string, folder: string): Promise<void> {
  try {
    await rename(building, folder)
  } catch (error) {
    if (!existsSync(folder)) throw error
    await rm(building, { recursive: true, force: true })
  }
}

function outcome(image: string, said: string, complaint: string, limits: UnpackLimits): Unpacked {
  const result = parsed(said)
  if (result?.ok) return result
  const issue =
    result === null ? complaint.trim() || 'the unpacker gave no answer' : [result.entry, result.issue].filter(Boolean).join(': ')
  switch (result?.code) {
    case 'invalid':
      throw new SandglassError('IMAGE_INVALID', { image, issue })
    case 'too_large': {
      const isEntries = issue.includes('entries')
      const [what, max] = isEntries ? (['entries', limits.maxEntries] as const) : (['bytes', limits.maxBytes] as const)
      throw new SandglassError('IMAGE_TOO_LARGE', { image, what, max })
    }
    case 'full':
      throw new SandglassError('IMAGE_STORE_FULL', { image, why: 'the disk of the data folder is full' })
    default:
      throw new SandglassError('INTERNAL', { message: `a layer of ${image} could not be unpacked: ${issue}` })
  }
}

function parsed(said: string): Result | null {
  try {
    return JSON.parse(said) as Result
  } catch {
    return null // it was killed before it could answer
  }
}

function collected(stream: Readable): () => string {
  let text = ''
  stream.setEncoding('utf8').on('data', piece => {
    if (text.length < 64 * 1024) text += piece
  })
  return () => text
}
