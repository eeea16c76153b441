import { LIMITS, SESSION_NAME, SESSION_NAME_RULE } from '@sandglass/contract/tables'
import type { SandboxClient, Session, SessionOptions, TaskOptions } from '@sandglass/sdk'
import type { Command, Context, Input } from '../../command.ts'
import { createWithProgress } from '../../output/show-progress.ts'
import { noteDifferences, noteWarnings, showSession, toJson } from '../../output/show-session.ts'
import { oneArgument, text, usage } from '../../parser/parse.ts'
import { SESSION_OPTIONS, specFromFlags } from '../../parser/spec-from-flags.ts'
import { readPrompt } from '../../task-run/prompt.ts'
import { attachTerminal, requireTerminal } from '../../terminal/attach-terminal.ts'

export const command: Command = {
  summary: 'Create a session',
  usage: ['[NAME] [FLAGS]', '[NAME] -a AGENT -p PROMPT [-t DURATION] [FLAGS]'],
  about: `NAME has ${SESSION_NAME_RULE}. Without NAME, a name is generated.

Prints the name and the id. With --shell, opens a terminal in the session instead.

With -a, the session gets the program of a coding agent. With -p as well, the agent starts to work on the prompt, and the id of the task is
printed below the session; the session stays when the agent has ended. \`sandglass task follow\` shows what it does.`,
  options: {
    ...SESSION_OPTIONS,
    prompt: { type: 'string', short: 'p', value: 'TEXT', about: 'with -a: what the agent is asked to do; - reads it from stdin' },
    shell: { type: 'boolean', about: 'open a terminal in the session once it runs' },
    timeout: {
      type: 'string',
      short: 't',
      value: 'DURATION',
      aliasOf: 'timeout-sec',
      about: 'end the session, with the agent, this long after its creation, like 1h; none by default',
    },
    'timeout-sec': { ...SESSION_OPTIONS['timeout-sec'], type: 'string', about: 'the same as --timeout' },
  },
  changes: true,
  async run(input, context) {
    const spec = specFromFlags(input.flags)
    if (input.args.length > 0) {
      if (spec.name !== undefined) throw usage('the name is given twice')
      spec.name = oneArgument(input, 'NAME')
    }
    if (spec.name !== undefined && !SESSION_NAME.test(spec.name)) throw usage(notAName(spec.name))
    const isShell = input.flags.shell === true
    if (isShell && spec.start === false) throw usage('--shell needs a running session: leave out --no-start')
    if (isShell) requireTerminal()
    const work = await workOf(spec, input)
    const client = await context.connect()
    if (spec.image !== undefined) await (await import('../image/pull.ts')).pullIfMissing(client, spec.image, context)
    const session = await create(client, spec, context)
    noteDifferences(session.info, spec, context)
    noteWarnings(session.info, context)
    if (work !== undefined) return startWork(client, session, work, context)
    if (!isShell || context.json) showSession(session.info, context)
    return isShell ? attachTerminal(session, { name: session.name }, context) : 0
  },
}

/** What the agent of the session is asked to do; undefined without -p. */
async function workOf({ agents = [], start, timeoutSec }: SessionOptions, { flags }: Input): Promise<TaskOptions | undefined> {
  const prompt = await readPrompt(text(flags.prompt), [])
  if (prompt === undefined) return undefined
  if (agents.length > 1)
    throw usage('a prompt in a session is for one agent: give one -a, or use `sandglass run -a claude,codex -p`')
  if (flags.shell || start === false) throw usage(`-p cannot be combined with ${flags.shell ? '--shell' : '--no-start'}`)
  const [agent] = agents
  if (agent === undefined) throw usage('-p needs an agent: give -a claude, codex or opencode')
  // The agent may work as long as its session exists.
  const longest = LIMITS.task_timeout_seconds.max
  return typeof timeoutSec === 'number' ? { prompt, agent, timeoutSec: Math.min(longest, timeoutSec) } : { prompt, agent }
}

/** Starts the agent and leaves it running. Without it, the session would be of no use, and is removed. */
async function startWork(client: SandboxClient, session: Session, work: TaskOptions, context: Context): Promise<number> {
  const { json, print, say } = context
  try {
    const [task] = await client.tasks.create({ ...work, session: session.id })
    const info = await session.refresh().catch(() => session.info)
    if (json) print(toJson({ ...info, task }))
    else print(`${info.name}  ${info.id}\n${task?.id}\n`)
    say(`follow the agent with \`sandglass task follow ${task?.id}\`\n`)
    return 0
  } catch (error) {
    await session.destroy({ purge: true }).catch(context.report)
    throw error
  }
}

async function create(client: SandboxClient, spec: SessionOptions, context: Context): Promise<Session> {
  using _ = noteOnInterrupt(spec.name, context)
  return await createWithProgress(client, spec, context)
}

/** Ctrl-C does not cancel a session whose creation has started, since other clients may see it already. */
function noteOnInterrupt(name: string | undefined, { say }: Context): Disposable {
  const leave = () => {
    const which = name === undefined ? 'a session' : `the session ${name}`
    say(
      `\nsandglass: interrupted; ${which} may still be created: \`sandglass ls\` shows it, \`sandglass rm -f ${name ?? 'NAME'}\` ends it\n`,
    )
    process.kill(process.pid, 'SIGINT') // the handler is gone, so the signal ends this process
  }
  process.once('SIGINT', leave)
  return { [Symbol.dispose]: () => void process.off('SIGINT', leave) }
}

function notAName(given: string): string {
  const near = given
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, '-')
    .replace(/^[^a-z]+|-+$/g, '')
    .slice(0, 41)
  const rule = `${given} is not a valid name: use ${SESSION_NAME_RULE}`
  return SESSION_NAME.test(near) ? `${rule}; did you mean ${near}?` : rule
}
