import { DEFAULT_SHELL } from '@sandglass/contract/tables'
import type { Command } from '../command.ts'
import { text, usage } from '../parse.ts'
import { toJson } from '../show-session.ts'

export const command: Command = {
  summary: 'End the command that runs in a shell of a session',
  usage: ['NAME [--shell SHELL]'],
  about: `Interrupts the command as Ctrl-C would, and kills it if it does not end at once. The shell stays, with its folder, variables and
background jobs. Nothing happens when no command runs. exec with --user has a shell of its own: main@root, for instance.`,
  options: {
    shell: { type: 'string', value: 'SHELL', about: 'which shell; main when absent' },
  },
  completes: 'session',
  changes: true,
  async run({ args, rest, flags }, context) {
    const [name, ...more] = [...args, ...(rest ?? [])]
    if (name === undefined) throw usage('NAME is missing')
    if (more.length > 0) throw usage('interrupt takes one session: write --shell in front of the name of a shell')
    const shell = text(flags.shell) ?? DEFAULT_SHELL
    const interrupted = await (await context.connect()).session(name).shells.interrupt(shell)
    if (context.json) context.print(toJson({ interrupted }))
    else context.print(interrupted ? `${name}  ${shell} interrupted\n` : `${name}  nothing runs in ${shell}\n`)
    return 0
  },
}
