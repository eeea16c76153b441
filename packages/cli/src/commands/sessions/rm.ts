import { SESSION_ID, SESSION_NAME } from '@sandglass/contract/tables'
import { SandglassError } from '@sandglass/sdk'
import type { Command } from '../../command.ts'
import { printable } from '../../output/printable.ts'
import { toJson } from '../../output/show-session.ts'
import { usage } from '../../parser/parse.ts'
import { confirm } from '../../setup/ask.ts'

export const command: Command = {
  summary: 'End sessions and remove their files',
  usage: ['NAME... [-f] [--purge]'],
  about: 'Asks for confirmation. Without a terminal, -f is required.',
  options: {
    force: { type: 'boolean', short: 'f', about: 'do not ask, and ignore sessions that do not exist' },
    purge: { type: 'boolean', about: 'also remove the record of the session, which ls --all shows' },
  },
  completes: 'sessions',
  changes: true,
  async run({ args, rest, flags }, { connect, json, print, report, say }) {
    const names = [...args, ...(rest ?? [])]
    if (names.length === 0) throw usage('NAME is missing')
    if (!flags.force) {
      const found = await connect()
      // A missing session is reported before the question, with or without a terminal.
      for (const name of names) {
        requireName(name)
        await found.getSession(name)
      }
      if (!process.stdin.isTTY) throw usage('rm asks for confirmation, and there is no terminal: pass -f')
      const what = names.length === 1 ? `session ${names[0]}` : `${names.length} sessions (${names.join(', ')})`
      if (!(await confirm(`End ${printable(what)} and remove the files in it?`))) {
        say('nothing was removed\n')
        return 0
      }
    }
    const client = await connect()
    const removed: string[] = []
    let code = 0
    // A failure does not stop the others; it decides the exit code.
    for (const name of names) {
      try {
        requireName(name)
        await client.session(name).destroy({ purge: flags.purge === true || undefined })
        removed.push(name)
        if (!json) print(`${printable(name)}\n`)
      } catch (error) {
        if (flags.force && error instanceof SandglassError && error.is('SESSION_NOT_FOUND')) continue
        code = await report(error)
      }
    }
    // If all of them failed, only the errors are printed.
    if (json && (removed.length > 0 || code === 0)) print(toJson({ removed }))
    return code
  },
}

/** Reports a word that can be neither an id nor a name as not found, without asking the daemon. */
function requireName(given: string): void {
  if (!SESSION_ID.test(given) && !SESSION_NAME.test(given)) throw new SandglassError('SESSION_NOT_FOUND', { id: given })
}
