import type { Command, Flag } from '../../../packages/cli/src/command.ts'
import { COMMAND_GROUPS, GLOBAL_FLAGS, loadCommand } from '../../../packages/cli/src/commands.ts'
import { flagForm } from '../../../packages/cli/src/parser/help-text.ts'
import { page, quote, table } from '../markdown.ts'

export async function cliPage(): Promise<string> {
  const groups = await Promise.all(
    COMMAND_GROUPS.map(async ({ title, names }) => {
      const sections = await Promise.all(names.map(async name => section(name, await loadCommand(name))))
      return [`## ${title}`, ...sections]
    }),
  )
  return page(
    'Command line',
    'Results are on stdout, everything else on stderr. `--json` prints what the API answered. With no daemon running, a command that needs one starts it.',
    flags(GLOBAL_FLAGS),
    'Exit codes: 0 ok, 1 internal, 2 usage or configuration, 3 backend or API failure, 4 not found, 5 wrong state. `exec`, `run` and `attach --pid` pass the exit code of the command on: ' +
      '128+n for a signal, 124 for a timeout, 125 when Sandglass itself failed.',
    ...groups.flat(),
  )
}

function section(name: string, command: Command): string {
  const forms = command.usage.map(form => `sandglass ${name} ${form}`.trimEnd())
  const parts = [`### sandglass ${name}`, `${command.summary}.`.replace(/\.\.$/, '.'), ['```', ...forms, '```'].join('\n')]
  if (command.about) parts.push(['```text', command.about.trim(), '```'].join('\n'))
  if (Object.keys(command.options).length > 0) parts.push(flags(command.options))
  return parts.join('\n\n')
}

function flags(options: Readonly<Record<string, Flag>>): string {
  const rows = Object.entries(options).map(([name, flag]) => {
    const [last, ...short] = flagForm(name, flag).trim().split(', ').reverse()
    return [[last ?? '', ...short].map(quote).join(', '), flag.about]
  })
  return table(['flag', 'what'], rows)
}
