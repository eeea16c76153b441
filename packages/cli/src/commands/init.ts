import { CREDENTIALS, type CredentialKey } from '@sandglass/contract/tables'
import { ask, askSecret } from '../ask.ts'
import type { Command } from '../command.ts'
import { readConfigDocument, writeConfigDocument } from '../config-document.ts'
import { isCredential, keepCredentials, keptNames } from '../keep-credentials.ts'
import { noArguments, text, usage } from '../parse.ts'
import { printable } from '../printable.ts'

/** Flags, the keys they set, what to ask, and what holds when the file does not say. */
const QUESTIONS = [
  { flag: 'agent', path: ['default_agent'], prompt: 'Default agent (claude, codex, opencode)', isSecret: false, unset: 'claude' },
  { flag: 'api-key', path: ['agent_api_keys'], prompt: 'API key of AGENT', isSecret: true, unset: 'none' },
  { flag: 'sprites-token', path: ['sprites_token'], prompt: 'Sprites token', isSecret: true, unset: 'none' },
  { flag: 'default-image', path: ['default_image'], prompt: 'Default image', isSecret: false, unset: 'host' },
  { flag: 'data-dir', path: ['data_dir'], prompt: 'Data folder', isSecret: false, unset: '~/.sandglass/data' },
] as const

const AGENTS = ['claude', 'codex', 'opencode']
const notAnAgent = (name: string) => `no agent ${name}: there are ${AGENTS.join(', ')}`

export const command: Command = {
  summary: 'Write the configuration file',
  usage: ['', '[FLAGS]'],
  about: `Asks for each value; Enter keeps what is in brackets. With flags it asks nothing. Other keys of the file stay as they are.
The file is readable by you alone. Keys go into the encrypted secret store instead, and those that lie in the file are moved there.

A value of - is read from stdin, so that a key need not stand in the shell's history.`,
  options: {
    agent: { type: 'string', choices: AGENTS, about: 'agent of a task that names none' },
    'api-key': { type: 'string', value: 'KEY', about: 'API key of that agent, or -' },
    'sprites-token': { type: 'string', value: 'TOKEN', about: 'token of the Sprites backend, or -' },
    'default-image': { type: 'string', value: 'IMAGE', isImage: true, about: 'image of a session that names none' },
    'data-dir': { type: 'string', value: 'DIR', isPath: true, about: 'where sessions, disks and the store live' },
  },
  async run(input, context) {
    noArguments(input)
    const { env, configPath, say } = context
    const file = await readConfigDocument(configPath, env)
    const hasFlags = QUESTIONS.some(({ flag }) => input.flags[flag] !== undefined)
    if (!hasFlags && !process.stdin.isTTY) throw usage('init asks questions and there is no terminal: give the values as flags')
    const kept = hasFlags ? undefined : await keptNames(context, file)
    const credentials = new Map<CredentialKey, string>()
    let agent = String(file.document.get('default_agent') ?? 'claude')
    for (const {
      flag,
      path: [key],
      prompt,
      isSecret,
      unset,
    } of QUESTIONS) {
      const path = key === 'agent_api_keys' ? [key, agent] : [key]
      const name = path.join('.')
      const current = isCredential(name) && kept?.includes(CREDENTIALS[name]) ? 'kept' : file.document.getIn(path)
      const question = {
        prompt: prompt.replace('AGENT', agent),
        current,
        isSecret,
        unset: isSecret && !kept ? 'unchanged' : unset,
        choices: flag === 'agent' ? AGENTS : undefined,
      }
      const given = hasFlags ? await fromFlag(flag, text(input.flags[flag])) : await answer(question)
      if (flag === 'agent') {
        agent = given ?? agent
        if (!AGENTS.includes(agent)) throw usage(notAnAgent(agent))
      }
      // SECURITY: a key goes into the secret store, never into the file.
      if (given && isCredential(name)) credentials.set(name, given)
      else if (given) file.document.setIn(path, given)
    }
    writeConfigDocument(file)
    say(`wrote ${file.path}\n`)
    await keepCredentials(context, file, credentials)
    return 0
  },
}

async function fromFlag(flag: string, given: string | undefined): Promise<string | undefined> {
  if (given === '') throw usage(`--${flag} is empty`)
  if (given !== '-') return given
  let piped = ''
  for await (const piece of process.stdin.setEncoding('utf8')) piped += piece
  const value = piped.trim()
  if (value === '')
    throw usage(`--${flag} - reads the value from stdin, and nothing came`, `printf %s "$KEY" | sandglass init --${flag} -`)
  return value
}

/** SECURITY: a secret that is there is shown as set, never as itself, and what is typed is not echoed. */
async function answer({ prompt, current, isSecret, unset, choices }: Question): Promise<string | undefined> {
  const kept = current === undefined ? unset : isSecret ? 'set' : String(current)
  for (;;) {
    const given = await (isSecret ? askSecret : ask)(`${prompt} [${kept}]: `)
    if (given === '' || !choices || choices.includes(given)) return given || undefined
    process.stderr.write(`${notAnAgent(printable(given))}\n`)
  }
}

type Question = { prompt: string; current: unknown; isSecret: boolean; unset: string; choices: readonly string[] | undefined }
