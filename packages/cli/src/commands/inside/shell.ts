import type { Command } from '../../command.ts'
import { oneArgument, text } from '../../parser/parse.ts'
import { attachTerminal, requireTerminal } from '../../terminal/attach-terminal.ts'

export const command: Command = {
  summary: 'Open a terminal in a session',
  usage: ['NAME [--shell SHELL]'],
  about: `Every key is sent to the session, Ctrl-C included. ~. at the start of a line detaches and leaves the shell running; exit ends it.

The terminal shows the output of the sandbox unchanged, with all escape sequences: do not open one in a session that you do not trust
with your terminal.`,
  options: { shell: { type: 'string', value: 'SHELL', about: 'shell to open, created at its first use; main by default' } },
  completes: 'session',
  async run(input, context) {
    const name = oneArgument(input, 'NAME')
    requireTerminal()
    const session = (await context.connect()).session(name)
    return attachTerminal(session, { name, shell: text(input.flags.shell) }, context)
  },
}
