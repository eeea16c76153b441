// Connects to the daemon, and starts it if none runs.
import { SandglassError } from '@sandglass/contract/tables'
import { connectLocal, SandboxClient } from '@sandglass/sdk/node'
import type { Context } from '../command.ts'
import { readApiKey } from './settings.ts'

/** A client of the daemon. The daemon is started only if the first call finds none, so that the usual call needs no check before it. */
export async function connect(context: Context): Promise<SandboxClient> {
  const settings = await context.settings()
  const { address, dataDir } = settings
  const apiKey = settings.apiKey ?? readApiKey(dataDir)
  if ('url' in address) {
    if (apiKey === undefined) throw new SandglassError('UNAUTHORIZED', {})
    return new SandboxClient({ baseUrl: address.url, apiKey })
  }
  const { socketPath } = address
  const start = async () => (await import('./start-daemon.ts')).startDaemon(settings, socketPath, context)
  return connectLocal({ dataDir, socketPath, start, ...(apiKey === undefined ? {} : { apiKey }) })
}
