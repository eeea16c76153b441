import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/** Free when asked; nothing else on the machine is expected to take it in the moment before it is used. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
