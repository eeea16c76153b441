import type { Command } from '../../command.ts'
import { commandExitCode } from '../../exec/exit-codes.ts'
import { attachProcess } from '../../exec/run-process.ts'
import { hasStdin } from '../../exec/stdin.ts'
import { oneArgument, text, usage } from '../../parser/parse.ts'
import { attachTerminal, requireTerminal } from '../../terminal/attach-terminal.ts'
import { pidOf } from './find-process.ts'

export const command: Command = {
  summary: 'Attach to a shell or a process of a session',
  usage: ['NAME [--shell SHELL]', 'NAME --pid PID|TAG'],
  about: `Without --pid it opens a terminal on the shell, as sandglass shell does.

--pid attaches to a process: it prints the kept output, then new output as it comes. Input is sent if the process was started with -t or
with its stdin open. If the process has a terminal, ~. at the start of a line detaches and leaves it running. Otherwise Ctrl-C
interrupts the process, and the third Ctrl-C detaches and leaves it running.

Exit code with --pid: that of the process, or 125 if Sandglass failed.`,
  options: {
    pid: { type: 'string', value: 'PID|TAG', about: 'attach to this process; sandglass ps lists them' },
    shell: { type: 'string', value: 'SHELL', about: 'shell to open, created at its first use; main by default' },
    stdin: { type: 'boolean', isOn: true, about: 'with --pid: send no input to the process' },
    raw: { type: 'boolean', about: 'with --pid: print the output unchanged, with all escape sequences' },
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
