import type { Command } from '../../command.ts'
import { commandExitCode } from '../../exec/exit-codes.ts'
import { attachProcess } from '../../exec/run-process.ts'
import { hasStdin } from '../../exec/stdin.ts'
import { oneArgument, text, usage } from '../../parser/parse.ts'
import { attachTerminal, requireTerminal } from '../../terminal/attach-terminal.ts'
import { pidOf } from './find-process.ts'

export const command: Command = {
  summary: 'Attach to the main shell, or to a process, of a session',
  usage: ['NAME [--shell SHELL]', 'NAME --pid PID|TAG'],
  about: `Without --pid it opens a terminal on the shell, like sandglass shell.

--pid attaches to a process: its output so far, as much as is kept, then its output as it comes. Input goes to it if it was started
with -t or with its stdin open. A process on a terminal is left with ~. at the start of a line, and goes on. Ctrl-C interrupts any
other process; pressed three times it leaves the process running and returns.

Exit code with --pid: that of the process, or 125 when Sandglass itself failed.`,
  options: {
    pid: { type: 'string', value: 'PID|TAG', about: 'attach to this process instead; sandglass ps lists them' },
    shell: { type: 'string', value: 'SHELL', about: 'which shell; main when absent, made on first use' },
    stdin: { type: 'boolean', isOn: true, about: 'send nothing to the process, with --pid' },
    raw: { type: 'boolean', about: 'output exactly as printed, with --pid' },
  },
  completes: 'session',
  async run(input, context) {
    const name = oneArgument(input, 'NAME')
    const given = text(input.flags.pid)
    const shell = text(input.flags.shell)
    if (given !== undefined && shell !== undefined) throw usage('give either --pid or --shell, not both')
    if (given === undefined) {
      requireTerminal()
      return attachTerminal((await context.connect()).session(name), { name, shell }, context)
    }
    return commandExitCode(async () => {
      const session = (await context.connect()).session(name)
      const found = await session.processes.get(await pidOf(session, given))
      if (found.tty) requireTerminal()
      const sendsStdin = found.stdinOpen && input.flags.stdin !== false && (process.stdin.isTTY || hasStdin())
      const earlyExit = {
        effect: 'leaves it running inside and returns',
        message: `detached; process ${found.pid} keeps running in the session`,
      }
      return attachProcess(session, found, { name, isRaw: input.flags.raw === true, sendsStdin, earlyExit }, context)
    }, context)
  },
}
