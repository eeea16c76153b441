// GET …/logs: what was printed while the machine started.
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { getSession } from './get.ts'
import type { World } from './world.ts'

/** Empty when the session has none any more: it goes with the machine's folder. */
export async function bootLog(world: World, ref: string): Promise<Readable> {
  const { id } = await getSession(world, ref)
  try {
    const file = await open(join(world.dataDir, 'sessions', id, 'logs', 'boot.log'), 'r')
    return createReadStream('', { fd: file })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Readable.from([])
    throw error
  }
}
