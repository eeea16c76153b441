import { ask, askSecret } from '../ask.ts'
import type { Command } from '../command.ts'
import { readConfigDocument, writeConfigDocument } from '../config-document.ts'
import { noArguments, text, usage } from '../parse.ts'

/** Flags, the keys they set, and what to ask. Aliases of the specifications come first. */
const QUESTIONS = [
  { flag: 'agent', path: ['default_agent'], prompt: 'Default agent (claude, codex, opencode)', isSecret: false },
  { flag: 'api-key', path: ['agent_api_keys'], prompt: 'API key of that agent', isSecret: true },
  { flag: 'sprites-token', path: ['sprites_token'], prompt: 'Sprites token, if you use Sprites', isSecret: true },
  { flag: 'default-image', path: ['default_image'], prompt: 'Default image', isSecret: false },
  { flag: 'data-dir', path: ['data_dir'], prompt: 'Data folder', isSecret: false },
] as const

const AGENTS = ['claude', 'codex', 'opencode']

export const command: Command = {
  summary: 'Write the configuration file',
  usage: ['', '[FLAGS]'],
  about: `Asks for each value; Enter keeps what is there. With flags it asks nothing. Other keys of the file stay as they are.
The file is readable by you alone. - as a value reads it from stdin, so that a key need not stand in the shell's history.`,
  options: {
    agent: { type: 'string', value: AGENTS.join('|'), about: 'agent of a task that names none' },
    'api-key': { type: 'string', value: 'KEY', about: 'API key of that agent, or -' },
    'sprites-token': { type: 'string', value: 'TOKEN', about: 'token of the Sprites backend, or -' },
    'default-image': { type: 'string', value: 'IMAGE', about: 'image of a session that names none' },
    'data-dir': { type: 'string', value: 'DIR', about: 'where sessions, disks and the store live' },
  },
  async run(input, { env, configPath, say }) {
    noArguments(input)
    const file = await readConfigDocument(configPath, env)
    const hasFlags = QUESTIONS.some(({ flag }) => input.flags[flag] !== undefined)
    if (!hasFlags && !process.stdin.isTTY) throw usage('init asks questions and there is no terminal: give the values as flags')
    let agent = String(file.document.get('default_agent') ?? 'claude')
    for (const {
      flag,
      path: [key],
      prompt,
      isSecret,
    } of QUESTIONS) {
      const path = key === 'agent_api_keys' ? [key, agent] : [key]
      const current = file.document.getIn(path)
      const given = hasFlags ? await fromFlag(text(input.flags[flag])) : await answer(prompt, current, isSecret)
      if (flag === 'agent') {
        agent = given ?? agent
        if (!AGENTS.includes(agent)) throw usage(`no agent ${agent}: there are ${AGENTS.join(', ')}`)
      }
      if (given) file.document.setIn(path, given)
    }
    writeConfigDocument(file)
    say(`wrote ${file.path}\n`)
    return 0
  },
}

async function fromFlag(given: string | undefined): Promise<string | undefined> {
  if (given !== '-') return given
  let piped = ''
  for await (const piece of process.stdin.setEncoding('utf8')) piped += piece
  return piped.trim() || undefined
}

/** SECURITY: a secret that is there is shown as set, never as itself, and what is typed is not echoed. */
async function answer(prompt: string, current: unknown, isSecret: boolean): Promise<string | undefined> {
  const shown = current === undefined ? '' : isSecret ? ' [set]' : ` [${String(current)}]`
  return (await (isSecret ? askSecret : ask)(`${prompt}${shown}: `)) || undefined
}
