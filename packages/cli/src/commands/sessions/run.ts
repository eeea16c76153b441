import type { AgentName } from '@sandglass/contract/tables'
import type { Session } from '@sandglass/sdk'
import type { Command, Context, Flag, Input, Values } from '../../command.ts'
import { GLOBAL_FLAGS } from '../../commands.ts'
import { PROCESS_FLAGS } from '../../exec/process-flags.ts'
import { agentNames } from '../../parser/agent-names.ts'
import { text, usage } from '../../parser/parse.ts'
import { SESSION_OPTIONS } from '../../parser/spec-from-flags.ts'
import { readPrompt } from '../../task-run/prompt.ts'
import { TASK_FLAGS } from '../../task-run/task-flags.ts'
import { runProgram, temporarySpec } from './run-program.ts'

const { start: _, agent: _agent, ...sessionOptions } = SESSION_OPTIONS

const PROGRAM_FLAGS: Readonly<Record<string, Flag>> = {
  'copy-in': {
    type: 'boolean',
    about: 'first copy the current folder into /workspace; the program runs only if every file could be read',
  },
  keep: { type: 'boolean', about: 'keep the session at the end' },
  rm: { type: 'boolean', about: 'remove the session at the end (the default)' },
  ...PROCESS_FLAGS,
  tty: { ...PROCESS_FLAGS.tty, about: 'run the program on a terminal (with -a, -t is --timeout)' },
  ...sessionOptions,
  env: { type: 'string', short: 'e', multiple: true, value: 'NAME=VALUE', about: 'environment variable' },
}

/** With -a, before it is known whether there is a prompt. */
const AGENT_FLAGS: Readonly<Record<string, Flag>> = {
  ...PROGRAM_FLAGS,
  tty: { type: 'boolean', about: PROGRAM_FLAGS.tty?.about ?? '' },
  ...TASK_FLAGS,
}

const taskOnly = Object.entries(TASK_FLAGS).filter(([name]) => PROGRAM_FLAGS[name] === undefined)

export const command: Command = {
  summary: 'Run one command, or a coding agent, in a session of its own',
  usage: [
    '[IMAGE] [FLAGS] -- PROGRAM [ARGUMENT]...',
    '-a AGENT -p PROMPT [-t DURATION] [--repo PATH] [FLAGS]',
    '-a AGENT [FLAGS]',
  ],
  about: `Creates a session, runs the program in it, removes the session, and exits with the program's exit code. With --keep the session
stays, and its name is printed on stderr.

stdin is passed on if it is a pipe or a file. Ctrl-C interrupts the program; the third Ctrl-C ends the session. If sandglass itself is
killed, the session ends by itself a minute later.

Exit code: that of the program; 128+n if signal n ended it (137 at the memory limit); 124 after --timeout; 127 if the program does not
exist, 126 if it cannot be executed; 125 if Sandglass failed.

With -a or -p, a task: the agent works on the prompt in a session that has its program, its policy and its key as a masked secret. What it
says is printed on stdout, what it does on stderr; --json prints one line for each event, and the task as the last line. Without -a, the
agent is default_agent of the configuration. \`sandglass task\` shows tasks again later. Ctrl-C stops the agent, a second one leaves at once.

With --repo, the agent works on what is committed in that repository. Its commits become the branch sandglass/TASK of the repository;
nothing is checked out, and no other branch changes.

Exit code of a task: 0 for a success (whose --check passed), 124 after --timeout, 1 for any other outcome, 130 after Ctrl-C, 125 if Sandglass
failed. Of several attempts or agents, one success is enough.

With -a and without a prompt, the agent's own screen opens on the terminal, with the current folder if --copy-in is given.`,
  options: {
    ...Object.fromEntries(taskOnly.map(([name, flag]): [string, Flag] => [name, { ...flag, about: `with -a: ${flag.about}` }])),
    agent: TASK_FLAGS.agent as Flag,
    ...PROGRAM_FLAGS,
  },
  optionsFor: argv => (isTask(argv) || hasTaskFlag(argv) ? AGENT_FLAGS : PROGRAM_FLAGS),
  changes: true,
  async run(input, context) {
    const { flags, rest, args } = input
    if (isTask(input.argv)) {
      const prompt = await readPrompt(text(flags.prompt), args)
      if (prompt === undefined) return runScreen(input, context)
      requireFlags(flags, TASK_FLAGS, 'does not belong to a prompt')
      return (await import('../../task-run/run-task.ts')).runTask(input, prompt, context)
    }
    requireFlags(flags, PROGRAM_FLAGS, 'needs an agent or a prompt (-a, -p)')
    const spec = temporarySpec(input)
    if (rest === undefined || rest.length === 0)
      throw usage(`no program to run: write it after --, as in sandglass run -- ${args[0] ?? 'ls'}`)
    return runProgram(spec, async () => ({ argv: rest }), flags, context)
  },
}

/** Flags of a task that the screen has as well. */
const SCREEN_FLAGS = { agent: true, model: true, 'base-url': true }

/** The agent's own screen, in a session that is removed afterwards. */
async function runScreen({ flags, rest = [] }: Input, context: Context): Promise<number> {
  const agent = screenAgent(flags)
  requireFlags(flags, { ...PROGRAM_FLAGS, ...SCREEN_FLAGS }, 'needs a prompt (-p)')
  const spec = { ...temporarySpec({ args: [], flags }), agents: [agent] }
  const programIn = async (session: Session) => {
    const { argv, env } = await session.prepareAgent(agent, { model: text(flags.model), baseUrl: text(flags['base-url']) })
    return { argv: [...argv, ...rest], env }
  }
  const code = await runProgram(spec, programIn, { ...flags, tty: true }, context)
  if (!flags.keep) context.say('the session was removed with its files; with --keep it stays\n')
  return code
}

/** The agent whose screen is asked for. Throws if there is no terminal for it. */
function screenAgent(flags: Values): AgentName {
  const [agent, ...more] = agentNames(flags.agent)
  if (agent === undefined) throw usage('the prompt is missing: give it with -p')
  if (more.length > 0) throw usage('several agents need a prompt: give it with -p')
  if (!process.stdin.isTTY || !process.stdout.isTTY)
    throw usage('the prompt is missing, and there is no terminal for the screen of the agent: give the prompt with -p')
  return agent
}

/** Throws for a flag that would have no effect in this form of the command. */
function requireFlags(flags: Values, known: Readonly<Record<string, unknown>>, issue: string): void {
  const other = Object.keys(flags).find(name => known[name] === undefined && !Object.hasOwn(GLOBAL_FLAGS, name))
  if (other !== undefined) throw usage(`--${other} ${issue}${other === 'keep' ? '; --keep-session keeps the session' : ''}`)
}

/** Whether -a or -p is among the words before --. */
const isTask = (argv: readonly string[]): boolean => ownWords(argv).some(word => /^(-[ap]|--(agent|prompt)(=.*)?$)/s.test(word))

/** A flag of a task without -a and -p is parsed as one, so that the error says what it needs. */
const hasTaskFlag = (argv: readonly string[]): boolean =>
  ownWords(argv).some(word => taskOnly.some(([name]) => new RegExp(`^--(no-)?${name}(=|$)`).test(word)))

const ownWords = (argv: readonly string[]) => (argv.includes('--') ? argv.slice(0, argv.indexOf('--')) : argv)
