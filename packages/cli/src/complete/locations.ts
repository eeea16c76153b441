import type { Context } from '../command.ts'
import { parseEndpoint } from '../copy/endpoint.ts'
import { printable } from '../output/printable.ts'
import type { Candidates } from './complete.ts'
import { askQuietly, sessionNames } from './sessions.ts'

/** No list that a person reads is longer. */
const MAX_ENTRIES = 1000

/** A source or the target of a copy: files here, NAME: of a session, or files in it. */
export async function locations(current: string, context: Context): Promise<Candidates> {
  const here = parseEndpoint(current)
  if (here.kind === 'sandbox') return { words: await remoteFiles(here.session, current, context) }
  const words = (await sessionNames(context)).map(name => ({ word: `${name}:` })).filter(({ word }) => word.startsWith(current))
  return { words, hasFiles: true }
}

async function remoteFiles(session: string, current: string, context: Context): Promise<{ word: string }[]> {
  const folder = current.slice(session.length + 1).replace(/[^/]*$/, '')
  const query = { maxEntries: MAX_ENTRIES }
  const found = await askQuietly(context, (client, signal) =>
    client.session(session).files.list(folder || '.', { ...query, signal }),
  )
  return (
    (found?.items ?? [])
      // SECURITY: the sandbox chose these names, and the shell shows them; one that would not show as itself is not offered.
      .filter(({ name }) => printable(name) === name)
      .map(({ name, type }) => ({ word: `${session}:${folder}${name}${type === 'directory' ? '/' : ''}` }))
      .filter(({ word }) => word.startsWith(current))
  )
}
