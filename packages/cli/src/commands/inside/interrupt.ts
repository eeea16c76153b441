import { DEFAULT_SHELL } from '@sandglass/contract/tables'
import { SandglassError, type Session } from '@sandglass/sdk'
import type { Command } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { text, usage } from '../../parser/parse.ts'

export const command: Command = {
  summary: 'End the command that is running in a shell of a session',
  usage: ['NAME [--shell SHELL]'],
  about: `Interrupts the command as Ctrl-C does, and kills it if it does not end at once. The shell stays, with its folder, variables and
background jobs. If no command is running, nothing happens. A command of exec --user runs in another shell, such as main@root.`,
  options: {
    shell: { type: 'string', value: 'SHELL', about: 'shell whose command is ended; main by default' },
  },
  completes: 'session',
  changes: true,
  async run({ args, rest, flags }, context) {
    const [name, ...more] = [...args, ...(rest ?? [])]
    if (name === undefined) throw usage('NAME is missing')
    if (more.length > 0) throw usage('interrupt takes one session; the shell is given with --shell')
    const shell = text(flags.shell) ?? DEFAULT_SHELL
    const { shells } = (await context.connect()).session(name)
    const interrupted = await shells.interrupt(shell).catch(async error => {
      throw await withShells(error, shells)
    })
    if (context.json) context.print(toJson({ interrupted }))
    else context.print(interrupted ? `${name}  ${shell} interrupted\n` : `${name}  no command is running in ${shell}\n`)
    return 0
  },
}

/** Adds the names of the existing shells to the error. */
async function withShells(error: unknown, shells: Session['shells']): Promise<unknown> {
  if (!(error instanceof SandglassError) || !error.is('SHELL_NOT_FOUND')) return error
  const names = (await shells.list()).map(shell => shell.name)
  const next =
    names.length === 0 ? 'the session has no shell yet' : `the session has the shells ${names.join(', ')}: give one with --shell`
  return error.with({ next })
}
