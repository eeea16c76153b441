import { SESSION_LIFECYCLE, type SessionEvent } from '@sandglass/contract/tables'
import { SandboxClient } from '@sandglass/sdk'
import { unixFetch } from '@sandglass/sdk/node'
import type { Context } from '../command.ts'
import { readApiKey } from '../daemon/settings.ts'

/** How long a person who pressed Tab is made to wait. */
const PATIENCE_MS = 1000

/** What `ask` gives; undefined when no daemon runs or anything goes wrong: pressing Tab starts none, and an error would be printed into the line that is typed. */
export async function askQuietly<T>(
  { settings }: Pick<Context, 'settings'>,
  ask: (client: SandboxClient, signal: AbortSignal) => Promise<T>,
): Promise<T | undefined> {
  try {
    const { address, apiKey, dataDir } = await settings()
    const key = apiKey ?? readApiKey(dataDir)
    if (!('socketPath' in address) || key === undefined) return undefined
    const fetch = unixFetch(address.socketPath)
    const client = new SandboxClient({ baseUrl: 'http://sandglass', apiKey: key, fetch, retries: 0 })
    return await ask(client, AbortSignal.timeout(PATIENCE_MS))
  } catch {
    return undefined
  }
}

/** All of them, or those that an event can happen to. */
export async function sessionNames(context: Pick<Context, 'settings'>, event?: SessionEvent): Promise<string[]> {
  const found = (await askQuietly(context, (client, signal) => client.listSessions({ signal }))) ?? []
  const fitting = event === undefined ? found : found.filter(({ status }) => event in SESSION_LIFECYCLE[status])
  return fitting.map(({ name }) => name)
}
