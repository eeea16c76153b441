import { SandglassError } from '@sandglass/contract/tables'
import { connectSocket, SandboxClient } from '@sandglass/sdk/node'
import type { Context } from '../command.ts'
import { readApiKey, type Settings } from './settings.ts'

/** A client of the daemon. The daemon is started when the first call finds nobody listening, so that the usual call asks nothing first. */
export async function connect(context: Context): Promise<SandboxClient> {
  const settings = await context.settings()
  if ('url' in settings.address) return remote(settings, settings.address.url)
  const { socketPath } = settings.address
  const start = async () => (await import('./start-daemon.ts')).startDaemon(settings, socketPath, context)
  let apiKey = settings.apiKey ?? readApiKey(settings.dataDir)
  if (apiKey === undefined) {
    await start()
    apiKey = readApiKey(settings.dataDir)
  }
  if (apiKey === undefined) throw new SandglassError('UNAUTHORIZED', {})
  return connectSocket({ socketPath, apiKey, start })
}

function remote(settings: Settings, url: string): SandboxClient {
  const apiKey = settings.apiKey ?? readApiKey(settings.dataDir)
  if (apiKey === undefined) throw new SandglassError('UNAUTHORIZED', {})
  return new SandboxClient({ baseUrl: url, apiKey })
}
