// Candidates for the shell: `sandglass __complete WORD...`, the last word being the one under the cursor.
import { SandboxClient } from '@sandglass/sdk'
import { unixFetch } from '@sandglass/sdk/node'
import type { Context } from './command.ts'
import { COMMAND_NAMES, GLOBAL_FLAGS, isCommand, loadCommand } from './commands.ts'
import { readApiKey } from './settings.ts'

export async function complete(words: readonly string[], context: Context): Promise<number> {
  for (const candidate of await candidates(words, context)) context.print(`${candidate}\n`)
  return 0
}

async function candidates(words: readonly string[], context: Context): Promise<readonly string[]> {
  const current = words.at(-1) ?? ''
  const name = words.slice(0, -1).find(word => !word.startsWith('-'))
  if (name === undefined) return matching(current.startsWith('-') ? flags({}) : COMMAND_NAMES, current)
  if (!isCommand(name) || words.slice(0, -1).includes('--')) return []
  const command = await loadCommand(name)
  if (current.startsWith('-')) return matching(flags(command.options), current)
  if (command.completes === 'sessions') return matching(await sessionNames(context), current)
  return matching(command.completes ?? [], current)
}

const flags = (options: object) => Object.keys({ ...options, ...GLOBAL_FLAGS }).map(flag => `--${flag}`)
const matching = (known: readonly string[], start: string) => known.filter(word => word.startsWith(start))

/** Only from a daemon that runs: pressing Tab starts none, and a failure gives no candidates. */
async function sessionNames(context: Context): Promise<string[]> {
  try {
    const { address, apiKey, dataDir } = await context.settings()
    const key = apiKey ?? readApiKey(dataDir)
    if (!('socketPath' in address) || key === undefined) return []
    const client = new SandboxClient({
      baseUrl: 'http://sandglass',
      apiKey: key,
      fetch: unixFetch(address.socketPath),
      retries: 0,
    })
    return (await client.listSessions({ signal: AbortSignal.timeout(1000) })).map(session => session.name)
  } catch {
    return [] // an error here would be printed into the line that is being typed
  }
}
