// For tests: a registry on this machine with the real packages of the agents. Each is downloaded once per machine, into .cache/agents of the
// repository; several test processes may do so at once.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { mkdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { nullIfMissing } from '../../lib/missing-file.ts'

const CACHE = fileURLToPath(new URL('../../../../../.cache/agents', import.meta.url))
const UPSTREAM = `https://${['registry', 'npmjs', 'org'].join('.')}`
const DOWNLOAD_MS = 120_000
/** The registry is on the internet: a connection may break. */
const TRIES = 3

export type CachedRegistry = {
  /** For `agents.registry` of the configuration. */
  readonly url: string
  close(): void
}

export async function cachedRegistry(): Promise<CachedRegistry> {
  const server = createServer(async ({ url = '' }, response) => {
    try {
      const file = await cached(url)
      response.writeHead(200, { 'content-length': (await stat(file)).size })
      createReadStream(file).pipe(response)
    } catch (error) {
      response.writeHead(502).end(String(error))
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

async function cached(path: string): Promise<string> {
  const file = join(CACHE, path.replaceAll(/[^A-Za-z0-9.-]+/g, '_'))
  if ((await stat(file).catch(nullIfMissing)) !== null) return file
  await mkdir(CACHE, { recursive: true })
  const partial = `${file}.${randomBytes(4).toString('hex')}`
  for (let tries = 1; ; tries++) {
    try {
      await download(path, partial)
      await rename(partial, file)
      return file
    } catch (error) {
      await rm(partial, { force: true })
      if (tries === TRIES) throw error
    }
  }
}

async function download(path: string, file: string): Promise<void> {
  const reply = await fetch(UPSTREAM + path, { signal: AbortSignal.timeout(DOWNLOAD_MS) })
  if (!reply.ok || reply.body === null) throw new Error(`${path}: ${reply.status}`)
  await writeFile(file, reply.body)
}
