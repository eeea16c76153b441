import { DEFAULT_SHELL } from '@sandglass/contract/tables'
import { SandglassError, type Session } from '@sandglass/sdk'
import type { Command } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { text, usage } from '../../parser/parse.ts'

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
    const { shells } = (await context.connect()).session(name)
    const interrupted = await shells.interrupt(shell).catch(async error => {
      throw await withShells(error, shells)
    })
    if (context.json) context.print(toJson({ interrupted }))
    else context.print(interrupted ? `${name}  ${shell} interrupted\n` : `${name}  nothing runs in ${shell}\n`)
    return 0
  },
}

/** The same failure with the shells that there are. */
async function withShells(error: unknown, shells: Session['shells']): Promise<unknown> {
  if (!(error instanceof SandglassError) || !error.is('SHELL_NOT_FOUND')) return error
  const names = (await shells.list()).map(shell => shell.name)
  const next = names.length === 0 ? 'the session has no shell yet' : `the session has ${names.join(', ')}: name one with --shell`
  return error.with({ next })
}
