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
  about: `-c TEXT runs a command line in a shell of the session that lives on: cd, export and background jobs are still there for the
next one. --cwd and --env apply to this command line only; --user runs it in a shell of that user, such as main@root. Its output is
cleaned of escape sequences unless --raw.

-- PROGRAM runs a program of its own, with separate stdout and stderr. On a terminal, sequences that could
harm it (clipboard, title, queries) are dropped unless --raw; with -t everything passes.

-d starts the program, prints its pid and returns. It runs until it ends or the session does, and the session does not
expire while the program runs.
sandglass logs shows its output, attach leads to it, and kill ends it.

Neither has a timeout unless --timeout, which includes the wait for a busy shell. stdin is passed on when it is a pipe or a file;
otherwise stdin is empty. Ctrl-C interrupts what runs inside; the third one kills it. If sandglass is killed or loses its terminal, the
-c command is interrupted, then killed.
--json prints the API's reply when the command has ended; a program's has stdout and stderr apart as well.

Exit code: the command's own; 128+n for a signal, 124 after a timeout, 127 or 126 for a program that is not there or may not be
run, and 125 when Sandglass itself failed, as with a session that is not there or does not run.`,
  options: {
    command: { type: 'string', short: 'c', value: 'TEXT', about: 'command line to run in the shell' },
    shell: { type: 'string', value: 'SHELL', about: 'which shell, with -c; main when absent, made on first use' },
    ...PROCESS_FLAGS,
    env: { type: 'string', short: 'e', multiple: true, value: 'NAME=VALUE', about: 'environment variable of the command' },
    detach: { type: 'boolean', short: 'd', about: 'start the program, print its pid and return' },
    tag: {
      type: 'string',
      value: 'TAG',
      about: 'your own name for the program, with -- PROGRAM; ps, logs, attach and kill take it',
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
  if (first !== undefined && more.length === 0 && /\s/.test(first))
    return `write -c in front of a command line: sandglass exec ${name} -c '${first.replaceAll("'", "'\\''")}'`
  if (first !== undefined) return `write -- in front of the program: sandglass exec ${name} -- ${[first, ...more].join(' ')}`
  const isCommand = flags.command !== undefined
  if (isCommand && rest !== undefined) return 'give either -c TEXT or -- PROGRAM, not both'
  if (!isCommand && (rest === undefined || rest.length === 0))
    return 'nothing to run: give -c TEXT or -- PROGRAM; sandglass shell opens a terminal'
  if (isCommand && text(flags.command)?.trim() === '') return 'the command line behind -c is empty'
  const foreign = isCommand ? (['tty', 'detach', 'tag'] as const) : (['shell'] as const)
  const wrong = foreign.find(flag => flags[flag] !== undefined)
  if (wrong) return `--${wrong} goes with ${isCommand ? '-- PROGRAM' : '-c TEXT'}${isCommand ? `: ${INSTEAD[wrong]}` : ''}`
  if (isJson && flags.tty) return 'a terminal has no one reply: leave out --json or -t'
  return undefined
}

/** What to write instead of -c TEXT with these flags. */
const INSTEAD: Readonly<Record<string, string>> = {
  detach: "sandglass exec -d NAME -- sh -c 'TEXT'",
  tag: "sandglass exec NAME --tag TAG -- sh -c 'TEXT'",
  tty: "sandglass exec NAME -t -- sh -c 'TEXT', or sandglass shell NAME",
}
