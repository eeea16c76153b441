// GET …/logs: what was printed while the machine started.
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import type { SessionContext } from '../context.ts'
import { getSession } from '../get.ts'

const CARRIAGE_RETURN = 0x0d

/** Empty when the session has none any more: it goes with the machine's folder. One that failed has at least the reason. */
export async function bootLog(context: SessionContext, ref: string): Promise<Readable> {
  const { id, status, error_message } = await getSession(context, ref)
  const reason = status === 'failed' && error_message !== null ? [Buffer.from(`${error_message}\n`)] : []
  try {
    const file = await open(join(context.dataDir, 'sessions', id, 'logs', 'boot.log'), 'r')
    if ((await file.stat()).size > 0) return Readable.from(lines(createReadStream('', { fd: file })))
    await file.close()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  return Readable.from(reason)
}

/** A console ends its lines for a terminal. */
async function* lines(log: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const chunk of log) yield Buffer.from(chunk.filter(byte => byte !== CARRIAGE_RETURN))
}
