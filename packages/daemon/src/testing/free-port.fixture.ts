// For tests: a port for a server that starts later, or that stops and starts again.
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below the ports that the kernel gives to connections and to servers that ask for any: what runs at the same time does not get it in between. */
const [FIRST, LAST] = [20_000, 32_767]

export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST))
    const server = createServer().listen(port, '127.0.0.1')
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    )
    if (!isFree) continue
    await new Promise(resolve => server.close(resolve))
    return port
  }
}
