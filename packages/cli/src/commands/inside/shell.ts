import type { Command } from '../../command.ts'
import { oneArgument, text } from '../../parser/parse.ts'
import { attachTerminal, requireTerminal } from '../../terminal/attach-terminal.ts'

export const command: Command = {
  summary: 'Open a terminal in a session',
  usage: ['NAME [--shell SHELL]'],
  about: `Every key goes inside, Ctrl-C included. ~. at the start of a line detaches and leaves the shell running; exit ends it.
The terminal shows what the sandbox prints, unchanged: only attach to a session whose output you would look at in a terminal.`,
  options: { shell: { type: 'string', value: 'SHELL', about: 'which shell; main when absent, made on first use' } },
  completes: 'session',
  async run(input, context) {
    const name = oneArgument(input, 'NAME')
    requireTerminal()
    const session = (await context.connect()).session(name)
    return attachTerminal(session, { name, shell: text(input.flags.shell) }, context)
  },
}
