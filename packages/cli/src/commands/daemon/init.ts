import { AGENTS, type AgentName } from '@sandglass/contract/tables'
import type { Command, Context, Input } from '../../command.ts'
import { agentName } from '../../parser/agent-names.ts'
import { noArguments, text, UsageError, usage } from '../../parser/parse.ts'
import { askKey, keyFromFlag, storeKey } from '../../setup/agent-key.ts'
import { ask } from '../../setup/ask.ts'
import { type ConfigDocument, readConfigDocument, writeConfigDocument } from '../../setup/config-document.ts'
import { moveCredentials } from '../../setup/move-credentials.ts'

/** The flags, their keys in the file, the questions, and the defaults. */
const QUESTIONS = [
  { flag: 'default-image', key: 'default_image', prompt: 'Default image', unset: 'host' },
  { flag: 'data-dir', key: 'data_dir', prompt: 'Data folder', unset: '~/.sandglass/data' },
  { flag: 'agent', key: 'default_agent', prompt: 'Default agent (claude, codex or opencode)', unset: 'claude' },
] as const

const API_KEY = 'api-key'

export const command: Command = {
  summary: 'Write the configuration file, and store the key of an agent',
  usage: ['', '[--agent AGENT] [--api-key -|VARIABLE] [FLAGS]'],
  about: `Asks for each value; Enter keeps the value in brackets. With flags it asks nothing. Other keys of the file are not changed.
Only you can read the file.

The key of the default agent is asked for without being shown. It is stored in the encrypted secret store, with the hosts that may receive
it; the file does not get it. API keys and tokens that are in the file are moved there. Sessions see a surrogate of the key.`,
  options: {
    'default-image': {
      type: 'string',
      value: 'IMAGE',
      names: 'image',
      about: 'image of sessions that are created without --image',
    },
    'data-dir': { type: 'string', value: 'DIR', isPath: true, about: 'folder of sessions, disks and the store' },
    agent: { type: 'string', short: 'a', choices: AGENTS, about: 'agent of tasks that name none' },
    [API_KEY]: {
      type: 'string',
      value: '-|VARIABLE',
      suggested: ['-', 'ANTHROPIC_API_KEY', 'OPENAI_API_KEY'],
      about: 'key of the default agent: - reads it from stdin; else the name of the variable of the environment that has it',
    },
  },
  async run(input, context) {
    noArguments(input)
    const { env, configPath, say } = context
    const file = await readConfigDocument(configPath, env)
    const hasFlags = [...QUESTIONS.map(({ flag }) => flag), API_KEY].some(flag => input.flags[flag] !== undefined)
    if (!hasFlags && !process.stdin.isTTY) throw usage('init asks questions and there is no terminal: give the values as flags')
    await fill(file, input, hasFlags)
    const agent = agentIn(file)
    const key = await keyOf(agent, input, hasFlags, context)
    writeConfigDocument(file)
    say(`wrote ${file.path}\n`)
    await moveCredentials(context, file)
    // After the keys of the file, so that a key that was given replaces one of them.
    if (key !== undefined) await storeKey(agent, key, context)
    return 0
  },
}

async function fill({ document }: ConfigDocument, { flags }: Input, hasFlags: boolean): Promise<void> {
  for (const { flag, key, prompt, unset } of QUESTIONS) {
    const given = hasFlags ? text(flags[flag]) : await ask(`${prompt} [${document.get(key) ?? unset}]: `)
    if (hasFlags && given === '') throw usage(`--${flag} is empty`)
    if (given) document.set(key, flag === 'agent' ? agentName(given) : given)
  }
}

async function keyOf(agent: AgentName, { flags }: Input, hasFlags: boolean, { env }: Context): Promise<string | undefined> {
  if (!hasFlags) return askKey(agent, env)
  const given = text(flags[API_KEY])
  return given === undefined ? undefined : keyFromFlag(given, agent, env)
}

/** A name in the file that is not an agent is the daemon's to report. */
function agentIn({ document }: ConfigDocument): AgentName {
  try {
    return agentName(String(document.get('default_agent') ?? AGENTS[0]))
  } catch (error) {
    if (error instanceof UsageError) return AGENTS[0]
    throw error
  }
}
