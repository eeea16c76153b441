import type { Context } from '../command.ts'
import { printable } from '../output/printable.ts'
import type { Candidate } from './complete.ts'
import { askQuietly } from './sessions.ts'

/** The processes of a session that run: the tag of one that has a tag, the pid of any other, with its command line. */
export async function processNames(session: string, context: Pick<Context, 'settings'>): Promise<Candidate[]> {
  const found = await askQuietly(context, (client, signal) => client.session(session).processes.table({ signal }))
  // SECURITY: a process chooses its command line, and the shell shows it.
  return (found ?? []).map(({ pid, tag, command }) => ({
    word: tag ?? String(pid),
    about: printable(command).slice(0, MAX_ABOUT),
  }))
}

const MAX_ABOUT = 60
