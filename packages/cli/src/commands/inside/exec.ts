import type { Command, Input } from '../../command.ts'
import { commandExitCode } from '../../exec/exit-codes.ts'
import { noteNoTerminal } from '../../exec/notes.ts'
import { PROCESS_FLAGS, processSettings } from '../../exec/process-flags.ts'
import { runInShell } from '../../exec/run-in-shell.ts'
import { runProcess, startDetached } from '../../exec/run-process.ts'
import { text, texts, usage } from '../../parser/parse.ts'
import { mapFrom } from '../../parser/spec-from-flags.ts'
import { requireTerminal } from '../../terminal/attach-terminal.ts'

export const command: Command = {
  summary: 'Run a command in a session',
  usage: ['NAME -c TEXT', 'NAME [FLAGS] -- PROGRAM [ARGUMENT]...', '-d NAME [--tag TAG] -- PROGRAM [ARGUMENT]...'],
  about: `-c TEXT runs a command line in a shell that stays: the next -c has the same folder, variables and background jobs. --cwd and --env
apply to this command line only. --user runs it in a shell of that user, such as main@root. Escape sequences are removed from the
output unless --raw.

-- PROGRAM runs a program without a shell, with separate stdout and stderr. If the output goes to a terminal, escape sequences that could
harm it (clipboard, title, queries) are removed unless --raw; with -t all of them pass.

-d starts the program, prints its pid and returns. The program runs until it ends or the session ends, and the session does not expire
while it runs. Use logs to see its output, attach to connect to it, and kill to end it.

There is no timeout without --timeout, which includes the wait for a busy shell. stdin is passed on if it is a pipe or a file; otherwise
it is empty. Ctrl-C interrupts the command, and the third Ctrl-C kills it. If sandglass is killed or loses its terminal, a -c command is
interrupted, then killed.

--json prints the API's reply when the command has ended; for a program it also has stdout and stderr apart.

Exit code: that of the command; 128+n if signal n ended it; 124 after a timeout; 127 if the program does not exist, 126 if it cannot be
executed; 125 if Sandglass failed, for instance because the session does not exist or is not running.`,
  options: {
    command: { type: 'string', short: 'c', value: 'TEXT', about: 'command line to run in the shell' },
    shell: { type: 'string', value: 'SHELL', about: 'shell for -c, created at its first use; main by default' },
    ...PROCESS_FLAGS,
    env: { type: 'string', short: 'e', multiple: true, value: 'NAME=VALUE', about: 'environment variable of the command' },
    detach: { type: 'boolean', short: 'd', about: 'start the program, print its pid and return' },
    tag: {
      type: 'string',
      value: 'TAG',
      about: 'name for the program, which ps shows and logs, attach and kill accept',
    },
  },
  completes: 'session',
  async run(input, context) {
    const { flags, args, rest } = input
    const [name] = args
    if (name === undefined) throw usage('NAME is missing')
    const mistake = misuse(input, context.json)
    if (mistake) throw usage(mistake)
    if (flags.tty && !flags.detach) requireTerminal()
    const cmd = text(flags.command)
    const { timeoutMs, user, cwd, tty, hasStdin, isRaw } = processSettings(flags)
    const settings = { timeoutMs, user, cwd, env: mapFrom('env', texts(flags.env)) }
    return commandExitCode(async () => {
      const session = (await context.connect()).session(name)
      if (cmd !== undefined) {
        const options = { ...settings, shell: text(flags.shell), rawOutput: isRaw || undefined, isStdinPiped: hasStdin }
        return runInShell(session, cmd, options, context)
      }
      const options = { ...settings, tty, tag: text(flags.tag), stdin: hasStdin || tty !== undefined }
      if (flags.detach) {
        return startDetached(session, [...(rest ?? [])], { ...options, stdin: flags.stdin === true }, context)
      }
      if (!options.stdin) noteNoTerminal(rest ?? [], context)
      return runProcess(session, [...(rest ?? [])], { ...options, name, isRaw }, context)
    }, context)
  },
}

function misuse({ flags, args, rest }: Input, isJson: boolean): string | undefined {
  const [name, first, ...more] = args
  if (first !== undefined && flags.command !== undefined)
    return `unexpected argument ${first}: put the whole command line after -c in quotes`
  if (first !== undefined && more.length === 0 && /\s/.test(first))
    return `write -c in front of a command line: sandglass exec ${name} -c '${first.replaceAll("'", "'\\''")}'`
  if (first !== undefined) return `write -- in front of the program: sandglass exec ${name} -- ${[first, ...more].join(' ')}`
  const isCommand = flags.command !== undefined
  if (isCommand && rest !== undefined) return 'give either -c TEXT or -- PROGRAM, not both'
  if (!isCommand && (rest === undefined || rest.length === 0))
    return 'no command to run: give -c TEXT or -- PROGRAM; sandglass shell opens a terminal'
  if (isCommand && text(flags.command)?.trim() === '') return 'the command line after -c is empty'
  const foreign = isCommand ? (['tty', 'detach', 'tag'] as const) : (['shell'] as const)
  const wrong = foreign.find(flag => flags[flag] !== undefined)
  if (wrong) return `--${wrong} goes with ${isCommand ? '-- PROGRAM' : '-c TEXT'}${isCommand ? `: ${INSTEAD[wrong]}` : ''}`
  if (isJson && flags.tty) return '--json cannot be combined with -t'
  return undefined
}

/** What to write instead of -c TEXT with each of these flags. */
const INSTEAD: Readonly<Record<string, string>> = {
  detach: "sandglass exec -d NAME -- sh -c 'TEXT'",
  tag: "sandglass exec NAME --tag TAG -- sh -c 'TEXT'",
  tty: "sandglass exec NAME -t -- sh -c 'TEXT', or sandglass shell NAME",
}
