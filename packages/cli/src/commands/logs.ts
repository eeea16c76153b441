import { type SessionEvent, toSnake } from '@sandglass/sdk'
import type { Command } from '../command.ts'
import { oneArgument } from '../parse.ts'
import { printable, printableJson, printableLines } from '../printable.ts'

export const command: Command = {
  summary: 'Show the boot log of a session',
  usage: ['NAME [-f]'],
  about: `With -f it goes on with the state changes of the session until the session ends or you press Ctrl-C.
--json prints a line with the log, and then one for each change.`,
  options: { follow: { type: 'boolean', short: 'f', about: 'go on with state changes' } },
  completes: 'session',
  async run(input, { connect, json, print, say }) {
    const session = (await connect()).session(oneArgument(input, 'NAME'))
    const log = await session.logs()
    // SECURITY: the runner writes this log, and what runs beside it may have a say in it.
    if (json) print(`${printableJson({ log })}\n`)
    else if (log) print(printableLines(log.endsWith('\n') ? log : `${log}\n`))
    else say('the boot log is empty: nothing went wrong at the start\n')
    if (!input.flags.follow) return 0
    const { FINAL_STATES } = await import('@sandglass/contract/tables')
    for await (const event of session.events()) {
      print(json ? `${printableJson(toSnake(event))}\n` : line(event))
      if (FINAL_STATES.includes(event.status)) break
    }
    return 0
  },
}

function line({ createdAt, type, reason, errorMessage }: SessionEvent): string {
  return `${createdAt} ${printable(type)} ${reason}${errorMessage ? `: ${printable(errorMessage)}` : ''}\n`
}
