// sandglass(1), from the same table as help, in the macros of man(7).
import type { Command, Flag } from '../../packages/cli/src/command.ts'
import { COMMAND_GROUPS, GLOBAL_FLAGS, loadCommand } from '../../packages/cli/src/commands.ts'
import { flagForm } from '../../packages/cli/src/parser/help-text.ts'

export async function manPage(version: string): Promise<string> {
  const groups = await Promise.all(
    COMMAND_GROUPS.map(async ({ title, names }) => {
      const commands = await Promise.all(names.map(async name => section(name, await loadCommand(name))))
      return [`.SH ${title.toUpperCase()}`, ...commands.flat()]
    }),
  )
  return `${[
    '.\\" Written by tools/dev gen. Change the source, not this page.',
    `.TH SANDGLASS 1 "" "sandglass ${escaped(version)}" "User Commands"`,
    '.SH NAME',
    'sandglass \\- sandboxes for code and coding agents',
    '.SH SYNOPSIS',
    '.B sandglass',
    '.I COMMAND',
    '[FLAGS]',
    '.SH DESCRIPTION',
    ...paragraphs(DESCRIPTION),
    '.SH FLAGS OF EVERY COMMAND',
    ...flags(GLOBAL_FLAGS),
    ...groups.flat(),
    '.SH EXIT STATUS',
    ...paragraphs(EXIT_STATUS),
    '.SH ENVIRONMENT',
    ...Object.entries(ENVIRONMENT).flatMap(([name, about]) => tagged(name, about)),
    '.SH FILES',
    ...tagged('~/.sandglass/config.yaml', 'configuration of your daemon, unless --config names another file'),
    ...tagged('~/.sandglass/data', 'data folder of your daemon: socket, key, log and sessions'),
  ].join('\n')}\n`
}

const DESCRIPTION = `Creates sandboxes, runs commands in them and removes them. A sandbox is called a session and has a name. Commands talk to
your daemon, which the first command starts.

Results are printed on stdout, everything else on stderr.`

const EXIT_STATUS = `0 ok, 1 internal error, 2 usage or configuration, 3 failure of a backend or of the API, 4 not found, 5 wrong state.

exec, run and attach --pid exit with the code of the program: 128+n if signal n ended it, 124 after a timeout, 125 if Sandglass failed.`

const ENVIRONMENT = {
  SANDGLASS_URL: 'URL of another daemon',
  SANDGLASS_API_KEY: 'key of that daemon',
  SANDGLASS_DEBUG: 'any value prints the stack trace of an error',
  NO_COLOR: 'any value turns colours off',
}

function section(name: string, command: Command): string[] {
  const forms = command.usage.map(form => `.B sandglass ${escaped(name)}\n${escaped(form)}`.trimEnd())
  return [
    `.SS sandglass ${escaped(name)}`,
    `${escaped(command.summary)}.`,
    '.PP',
    forms.join('\n.br\n'),
    ...(command.about ? ['.PP', ...paragraphs(command.about)] : []),
    ...flags(command.options),
  ]
}

/** Text as help has it: an empty line ends a paragraph, and lines that begin with a space stay as they are. */
function paragraphs(text: string): string[] {
  return text.split('\n\n').flatMap((paragraph, i) => {
    const lines = paragraph.split('\n')
    const start = lines.findIndex(line => line.startsWith(' '))
    const [prose, example] = start < 0 ? [lines, []] : [lines.slice(0, start), lines.slice(start)]
    const shown = example.length > 0 ? ['.PP', '.nf', ...example.map(escaped), '.fi'] : []
    const isFirst = i === 0 || prose.length === 0
    return [...(isFirst ? [] : ['.PP']), ...prose.map(escaped), ...shown]
  })
}

const flags = (options: Readonly<Record<string, Flag>>): string[] =>
  Object.entries(options).flatMap(([name, flag]) => tagged(flagForm(name, flag).trim(), flag.about))

const tagged = (term: string, about: string): string[] => ['.TP', `.B ${escaped(term)}`, escaped(about)]

/** A backslash, a dash, a quote, and a dot at the start of a line mean something to roff. */
function escaped(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/[^\x20-\x7e]/g, char => `\\[u${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`)
    .replace(/^(?=\.)/, '\\&')
    .replaceAll('"', '\\(dq')
    .replaceAll("'", '\\(aq')
}
