import type { Command } from '../command.ts'
import { oneArgument, usage } from '../parse.ts'
import { showSession } from '../show-session.ts'
import { SESSION_OPTIONS, specFromFlags } from '../spec-from-flags.ts'
import { attachTerminal } from '../terminal/attach-terminal.ts'

export const command: Command = {
  summary: 'Create a session',
  usage: ['[NAME] [FLAGS]'],
  about: 'Prints its name and id. --no-start creates it stopped; --shell opens a terminal in it.',
  options: { ...SESSION_OPTIONS, shell: { type: 'boolean', about: 'attach a terminal to its shell when it runs' } },
  async run(input, context) {
    const spec = specFromFlags(input.flags)
    if (input.args.length > 0) {
      if (spec.name !== undefined) throw usage('the name is given twice')
      spec.name = oneArgument(input, 'NAME')
    }
    if (input.flags.shell && spec.start === false) throw usage('--shell needs a session that runs; leave out --no-start')
    const session = await (await context.connect({ sockets: input.flags.shell === true })).createSession(spec)
    showSession(session.info, context)
    return input.flags.shell ? attachTerminal(session, {}, context) : 0
  },
}
