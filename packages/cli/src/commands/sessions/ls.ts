import type { Command } from '../../command.ts'
import { sessionTable, toJson } from '../../output/show-session.ts'
import { noArguments, text } from '../../parser/parse.ts'

export const command: Command = {
  summary: 'List sessions',
  usage: ['[--all] [--label NAME=VALUE]'],
  options: {
    all: { type: 'boolean', short: 'a', about: 'also show sessions that have ended' },
    label: { type: 'string', value: 'NAME=VALUE', about: 'show only sessions with this label' },
  },
  async run(input, context) {
    noArguments(input)
    const all = input.flags.all === true || undefined
    const found = await (await context.connect()).listSessions({ all, label: text(input.flags.label) })
    if (context.json) context.print(toJson(found))
    else if (found.length > 0) context.print(sessionTable(found, process.stdout))
    else context.say(`no sessions${all ? '' : ' (--all also shows those that have ended)'}; \`sandglass new\` creates one\n`)
    return 0
  },
}
